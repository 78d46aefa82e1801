"""Sets of vectors of many kinds, by formula or from the sample of sentences.

SETS maps a name to a Set.  make(rows) returns (base, query): float32 arrays [rows, dim] and [QUERIES, dim], or, of a
sparsevec, two lists of (indices, values).  The same seed gives the same rows on every machine with the same numpy.
"""
import gzip
import os
import re
import sys
import sysconfig
import zlib

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, read_matrix  # noqa: E402

QUERIES = 200
WORDS = 30000           # dimensions of sparse rows

L2, INNER_PRODUCT, COSINE, L1, HAMMING, JACCARD = "<->", "<#>", "<=>", "<+>", "<~>", "<%>"
CLASSES = {L2: "l2", INNER_PRODUCT: "ip", COSINE: "cosine", L1: "l1", HAMMING: "hamming", JACCARD: "jaccard"}


class Set:
    """Rows of one kind: type of the column, operator, function (rows, rng) -> (base, query), most rows that there are."""

    def __init__(self, make, op=L2, type_="vector", most=1 << 30):
        self.function, self.op, self.type, self.most = make, op, type_, most

    def make(self, name, rows):
        rows = min(rows, self.most)
        base, query = self.function(rows, np.random.default_rng(zlib.crc32(name.encode())))
        if self.type == "sparsevec":
            return base, query
        return np.ascontiguousarray(base, np.float32), np.ascontiguousarray(query, np.float32)

    @property
    def ops(self):
        return f"{self.type}_{CLASSES[self.op]}_ops"


def split(x, rng):
    """The last QUERIES rows of a random order are queries."""
    x = x[rng.permutation(len(x))]
    return x[:-QUERIES], x[-QUERIES:]


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def drawn(function):
    """A set whose queries are drawn as its rows are."""
    return lambda rows, rng: split(function(rows + QUERIES, rng), rng)


# ---- dense rows ----

def sample(name):
    rows = np.fromfile(f"{ROOT}/test/data/{name}.i8", np.int8).reshape(-1, 384).astype(np.float32)
    return unit(rows)


def sentences(rows, rng):
    return sample("glosses")[rng.permutation(20000)[:rows]], sample("queries")[:QUERIES]


def sentences_side_by_side(rows, rng):
    """Four sentences a row, 1,536 dimensions: harder than texts of the length, whose sentences agree."""
    base, query = sentences(rows, rng)
    return tuple(np.hstack([np.roll(x, i, 0) for i in range(4)]) / 2 for x in (base, query))


def uniform(dim):
    return drawn(lambda n, rng: rng.random((n, dim), np.float32))


def normal(dim):
    return drawn(lambda n, rng: rng.standard_normal((n, dim), np.float32))


def patches(n, rng):
    """8 x 8 crops of fields whose amplitudes fall as 1/f, as those of photographs do."""
    side, out = 512, []
    f = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    f[0, 0] = 1
    for first in range(0, n, 20000):
        field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((side, side))) / f).real
        m = min(20000, n - first)
        y, x = rng.integers(0, side - 8, (2, m))
        rows = np.arange(8)
        out.append(field[y[:, None, None] + rows[:, None], x[:, None, None] + rows].reshape(m, 64))
    return np.concatenate(out)


def colors(n, rng):
    """RGB numbers about 60 frequent colors."""
    center, spread = rng.random((60, 3)) * 255, rng.lognormal(2, 0.8, (60, 1))
    of = rng.choice(60, n, p=rng.dirichlet(np.ones(60)))
    return np.clip(center[of] + spread[of] * rng.standard_normal((n, 3)), 0, 255)


def dominating(n, rng):
    """One column varies a hundred times as much as each of the others."""
    x = rng.standard_normal((n, 64), np.float32)
    x[:, 0] *= 100
    return x


def line(n, rng):
    """Rows along a line, with a little noise."""
    return rng.random((n, 1)) * 100 * unit(rng.standard_normal((1, 64))) + 0.01 * rng.standard_normal((n, 64))


def clusters(rows_each, sigma, dim):
    def make(n, rng):
        centers = rng.standard_normal((max(n // rows_each, 1), dim))
        return centers[rng.integers(0, len(centers), n)] + sigma * rng.standard_normal((n, dim))
    return drawn(make)


def word_vectors(n, rng):
    """50 dimensions with a falling spectrum about topics of unequal size and a common direction, as word vectors are."""
    spectrum = np.arange(1, 51) ** -0.4
    topics = rng.standard_normal((300, 50)) * spectrum
    of = rng.choice(300, n, p=rng.dirichlet(np.full(300, 0.3)))
    return topics[of] * 0.7 + rng.standard_normal((n, 50)) * spectrum + np.eye(50)[0] * 2


def token_vectors(n, rng):
    """256 dimensions; frequent tokens are short and lie near a common mean, rare ones are long."""
    x = rng.standard_normal((n, 256)) * np.arange(1, 257) ** -0.35
    return (unit(x) + 0.4 * np.eye(256)[3]) * rng.lognormal(2, 0.5, (n, 1))


def with_lengths(lengths):
    """100 dimensions; queries have length 1."""
    def make(n, rng):
        x = unit(rng.standard_normal((n + QUERIES, 100)))
        return x[:n] * lengths(n, rng)[:, None], x[n:]
    return make


def unequal_clusters(n, rng):
    """96 dimensions; clusters of Zipf's sizes and spreads from .001 to 1, all on one side of the origin."""
    center, share = rng.standard_normal((500, 96)), np.arange(1, 501) ** -1.2
    of = rng.choice(500, n, p=share / share.sum())
    return center[of] + rng.standard_normal((n, 96)) * (10 ** rng.uniform(-3, 0, (500, 1)))[of]


def people(n, rng):
    """512 dimensions, few to many pictures of each person: near rows are near, all others equally far."""
    center, share = rng.standard_normal((n // 12, 512)), rng.pareto(1.2, n // 12) + 0.2
    return unit(center[rng.choice(n // 12, n, p=share / share.sum())] + 0.6 * rng.standard_normal((n, 512)))


def circle(n, rng):
    """500 dimensions; a circle with a noise that is less than bytes can tell."""
    plane, t = np.linalg.qr(rng.standard_normal((500, 2)))[0], rng.random(n) * 2 * np.pi
    return np.stack([np.cos(t), np.sin(t)], 1) @ plane.T + 1e-4 * rng.standard_normal((n, 500))


def histograms(n, rng):
    return rng.dirichlet(np.full(64, 0.3), n)


def near_duplicates(n, rng):
    """Fifty copies of each of n / 50 rows, nearly equal; queries are no copies."""
    x = rng.standard_normal((max(n // 50, 1), 32))
    return x[rng.integers(0, len(x), n)] + 1e-3 * rng.standard_normal((n, 32)), rng.standard_normal((QUERIES, 32))


def drifting(n, rng):
    """Rows in the order in which they came: their mean moves by twice their spread."""
    x = rng.standard_normal((n, 64)) * np.arange(1, 65) ** -0.3
    x += np.linspace(0, 1, n)[:, None] * unit(rng.standard_normal((1, 64))) * 16
    query = rng.permutation(n)[:QUERIES]
    return x, x[query] + 0.3 * rng.standard_normal((QUERIES, 64))


# ---- dense rows whose queries are unlike them ----

def latent(texts, dims=128):
    """Latent semantic analysis: fold(texts) and the unit rows of these texts, lists of words."""
    rng = np.random.default_rng(1)
    names, counts = np.unique(np.concatenate([np.array(t, "U24") for t in texts]), return_counts=True)
    names = names[np.argsort(-counts, kind="stable")][:WORDS]
    number = {name: i for i, name in enumerate(names)}
    ids = [np.unique([number[w] for w in t if w in number], return_counts=True) for t in texts]
    seen = np.bincount(np.concatenate([i for i, _ in ids]).astype(int), minlength=len(names))
    idf = np.log(len(texts) / (1 + seen)).clip(0.1)

    def times(parts, y):
        """The rows of these texts times y."""
        out = np.zeros((len(parts), y.shape[1]), np.float32)
        for at, (i, c) in enumerate(parts):
            if len(i):
                w = (1 + np.log(c)) * idf[i]
                out[at] = (w / np.linalg.norm(w)) @ y[i]
        return out

    def transposed_times(y):
        out = np.zeros((len(names), y.shape[1]), np.float32)
        for at, (i, c) in enumerate(ids):
            if len(i):
                w = (1 + np.log(c)) * idf[i]
                out[i] += np.outer(w / np.linalg.norm(w), y[at])
        return out

    basis = rng.standard_normal((len(names), dims), np.float32)
    for _ in range(1):
        basis = np.linalg.qr(transposed_times(np.linalg.qr(times(ids, basis))[0]))[0]

    def fold(texts):
        x = times([np.unique([number[w] for w in t if w in number], return_counts=True) for t in texts], basis)
        return unit(x[np.linalg.norm(x, axis=1) > 0])
    return fold, fold(texts)


def words_of(text):
    return [w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text) if len(w) > 1]


def glosses():
    with gzip.open(f"{ROOT}/test/data/glosses.txt.gz", "rt") as f:
        return [words_of(line) for line in f]


def words_in_texts(words):
    """Glosses of WordNet; queries are so many words of one, as users type them."""
    def make(rows, rng):
        texts = [t for t in glosses() if len(t) >= 4]
        fold, base = latent(texts)
        of = rng.permutation(len(texts))[:2 * QUERIES]
        return base[:rows], fold([list(rng.choice(texts[i], words, replace=False)) for i in of])[:QUERIES]
    return make


def text_and_code(rows, rng):
    """Pieces of twelve lines of Python's own library; queries are first lines of docstrings."""
    files, pieces, queries = [], [], []
    for where, folders, names in sorted(os.walk(sysconfig.get_path("stdlib"))):
        folders[:] = sorted(x for x in folders if x not in ("site-packages", "dist-packages", "__pycache__"))
        files += [f"{where}/{name}" for name in sorted(names) if name.endswith(".py")]
    for at in rng.permutation(len(files)):
        if len(pieces) >= rows and len(queries) >= QUERIES:
            break
        with open(files[at], encoding="utf-8", errors="replace") as f:
            text = f.read()
        lines = text.splitlines()
        pieces += [w for i in range(0, len(lines), 12) for w in [words_of(" ".join(lines[i:i + 12]))] if len(w) >= 8]
        queries += [words_of(line) for line in re.findall(r'(?m)^\s+"""(\w.*?)(?:"""|$)', text)]
    queries = [queries[i] for i in rng.permutation(len(queries)) if len(queries[i]) >= 3]
    fold, base = latent(pieces[:rows])
    return base, fold(queries)[:QUERIES]


def two_modalities(n, rng):
    """Rows and queries show the same topics through two encoders, each with a mean and noise of its own."""
    topics = rng.standard_normal((n + QUERIES, 24))
    maps = [rng.standard_normal((24, 128)) for _ in range(2)]
    maps[1] = 0.7 * maps[0] + 0.7 * maps[1]
    means = rng.standard_normal((2, 128)) * 6
    base = topics[:n] @ maps[0] + means[0] + 2 * rng.standard_normal((n, 128))
    return unit(base), unit(topics[n:] @ maps[1] + means[1] + 2 * rng.standard_normal((QUERIES, 128)))


def other_clusters(n, rng):
    """Clusters of unequal size; queries come from each as often, and half of them lie between two."""
    centers = rng.standard_normal((400, 48))
    of = rng.choice(400, n, p=rng.dirichlet(np.full(400, 0.3)))
    base = centers[of] + 0.3 * rng.standard_normal((n, 48))
    a, b = rng.integers(0, 400, (2, QUERIES))
    share = np.where(np.arange(QUERIES) % 2, 0, rng.random(QUERIES))[:, None]
    return base, centers[a] * (1 - share) + centers[b] * share + 0.3 * rng.standard_normal((QUERIES, 48))


def colors_and_patches(n, rng):
    """Queries are 8 x 8 pieces of one color, with a little noise."""
    base = patches(n, rng)
    gray = base.mean(1)[rng.integers(0, n, QUERIES)]
    return base, gray[:, None] + 0.02 * base.std() * rng.standard_normal((QUERIES, 64))


# ---- bits ----

def signs(n, rng):
    """256 signs of rows about topics."""
    x = rng.standard_normal((200, 64))[rng.integers(0, 200, n)] + rng.standard_normal((n, 64))
    return (x @ rng.standard_normal((64, 256)) > 0).astype(np.float32)


def bit_sets(n, rng):
    """1,024 bits of which a tenth are ones."""
    x = rng.standard_normal((200, 64))[rng.integers(0, 200, n)] + rng.standard_normal((n, 64))
    x = x @ rng.standard_normal((64, 1024))
    return (x > np.quantile(x[:2000], 0.9, axis=0)).astype(np.float32)


# ---- sparse rows ----

def documents(n, rng, words, topics=200):
    """Counts of words: a third of each document's words come from its topic, the others by Zipf's law."""
    zipf = 1 / np.arange(1, WORDS + 1)
    zipf /= zipf.sum()
    of_topic = [rng.choice(WORDS, 300, replace=False) for _ in range(topics)]
    out = []
    for topic in rng.integers(0, topics, n):
        m = max(int(rng.lognormal(np.log(words), 0.4)), 3)
        own = of_topic[topic][rng.integers(0, 300, m // 3)]
        out.append(np.unique(np.concatenate([rng.choice(WORDS, m - m // 3, p=zipf), own]), return_counts=True))
    return out


def weights(docs):
    """Logarithm of how rare each word is."""
    have = np.bincount(np.concatenate([i for i, _ in docs]), minlength=WORDS)
    return np.log(1 + len(docs) / (1 + have))


def splade(rows, rng):
    """Expanded texts: 120 words a row and 40 a query, weights of log-normal sizes."""
    def weighted(docs):
        return [(i, (idf[i] * np.log1p(c) * rng.lognormal(0, 0.5, len(i))).astype(np.float32)) for i, c in docs]
    base = documents(rows, rng, 120)
    idf = weights(base)
    return weighted(base), weighted(documents(QUERIES, rng, 40))


def keywords(rows, rng):
    """BM25: rows have saturated frequencies times how rare a word is, queries three to five words of a row."""
    docs = documents(rows, rng, 60)
    idf = weights(docs)
    base = [(i, (idf[i] * c * 2.2 / (c + 1.2)).astype(np.float32)) for i, c in docs]
    query = []
    for at in rng.integers(0, rows, QUERIES):
        words = np.sort(rng.choice(docs[at][0], min(rng.integers(3, 6), len(docs[at][0])), replace=False))
        query.append((words, np.ones(len(words), np.float32)))
    return base, query


def tf_idf(rows, rng):
    docs = documents(rows + QUERIES, rng, 40)
    idf = weights(docs)
    x = [(i, (idf[i] * c).astype(np.float32)) for i, c in docs]
    return x[:rows], x[rows:]


SETS = {
    "sentences": Set(sentences, COSINE, most=20000),
    "sentences, 1536": Set(sentences_side_by_side, most=20000),
    "words, 50": Set(drawn(word_vectors), COSINE),
    "normal, 64, 1,000 rows": Set(normal(64), most=1000),
    "normal, 256": Set(normal(256)),
    "uniform, 100": Set(uniform(100)),
    "patches, 64": Set(drawn(patches)),
    "colors, 3": Set(drawn(colors)),
    "dominating column, 64": Set(drawn(dominating)),
    "line, 64": Set(drawn(line)),
    "100s in tight clusters, 64": Set(clusters(200, 0.01, 64)),
    "100s in tight clusters, 128": Set(clusters(200, 0.01, 128)),
    "20s in tight clusters, 384": Set(clusters(20, 0.01, 384)),
    "near duplicates, 32": Set(near_duplicates),
    "drifting, 64": Set(drifting),
    "words in glosses, 128": Set(words_in_texts(1), COSINE, most=19500),
    "keywords in glosses, 128": Set(words_in_texts(3), COSINE, most=19500),
    "text in code, 128": Set(text_and_code, COSINE),
    "two modalities, 128": Set(two_modalities, COSINE),
    "other clusters, 48": Set(other_clusters),
    "colors in patches, 64": Set(colors_and_patches),
    "tokens, 256": Set(drawn(token_vectors), INNER_PRODUCT),
    "log-normal lengths, 100": Set(with_lengths(lambda n, rng: rng.lognormal(0, 0.5, n)), INNER_PRODUCT),
    "Pareto lengths, 100": Set(with_lengths(lambda n, rng: 1 + rng.pareto(1.5, n)), INNER_PRODUCT),
    "clusters of unequal spread, 96": Set(drawn(unequal_clusters), INNER_PRODUCT),
    "people, 512": Set(drawn(people), COSINE),
    "circle, 500": Set(drawn(circle), INNER_PRODUCT),
    "histograms, 64": Set(drawn(histograms), L1),
    "halves, 10": Set(uniform(10), L1, "halfvec"),
    "halves, sentences": Set(sentences, COSINE, "halfvec", most=20000),
    "signs, 256": Set(drawn(signs), HAMMING, "bit"),
    "sets, 1024": Set(drawn(bit_sets), JACCARD, "bit"),
    "SPLADE": Set(splade, INNER_PRODUCT, "sparsevec"),
    "keywords": Set(keywords, INNER_PRODUCT, "sparsevec"),
    "TF-IDF": Set(tf_idf, COSINE, "sparsevec"),
}


def folder(path, op):
    """The set of a data folder (base.fbin, query.fbin)."""
    def make(rows, rng):
        base, query = read_matrix(f"{path}/base.fbin"), read_matrix(f"{path}/query.fbin")
        return np.array(base[:rows]), np.array(query[:QUERIES])
    return Set(make, op)
