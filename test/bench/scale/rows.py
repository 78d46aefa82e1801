"""The rows of the scale benchmark: SIFT descriptors or others, then the same with noise; their bytes for COPY; their nearest to queries.

A process of its own makes them, so that nothing of it holds the GPU when an index is built there.
"""
import glob
import os
import sys
import tarfile
import time
from multiprocessing import Pool

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import read_matrix, save_matrix  # noqa: E402

PIECE_BYTES = 70 << 20  # of one COPY
BLOCK = 25000           # rows compared with all queries at once, without a GPU
TRUTH = 20              # neighbors kept of each query
QUERIES = 1000
OTHERS = 100000         # queries without truth, so that no memory holds what they touch
NOISE = (0.2, 0.6)      # of a dimension's deviation: the least and the most that a row may get
HELD_OUT = 25           # every so many photographs one gives queries and no rows


def of_photographs(where, scratch):
    """Descriptors of a folder or a tar of photographs: (base, query), bytes, in a random order."""
    from vectors import sift_of
    if os.path.isfile(where):
        with tarfile.open(where) as tar:
            tar.extractall(f"{scratch}/photographs", filter="data")
        where = f"{scratch}/photographs"
    files = sorted(glob.glob(f"{where}/**/*.jpg", recursive=True))
    if len(files) <= HELD_OUT:
        sys.exit(f"{where}: {len(files)} photographs, and {HELD_OUT + 1} at least are needed")
    with Pool() as pool:
        of = pool.map(sift_of, files, chunksize=1)
    rng = np.random.default_rng(1)
    base = rng.permutation(np.concatenate([d for i, d in enumerate(of) if i % HELD_OUT]))
    return base, rng.permutation(np.concatenate(of[::HELD_OUT]))[:QUERIES + OTHERS]


def of_folder(folder):
    """The same of a data folder with base.fbin and query.fbin: bytes where all are whole numbers up to 255, else floats."""
    both = [np.asarray(read_matrix(f"{folder}/{name}.fbin")) for name in ("base", "query")]
    return tuple(x.astype(np.uint8) for x in both) if all(map(are_bytes, both)) else tuple(both)


def are_bytes(rows):
    """By the first thousand: are all whole numbers up to 255?"""
    return (rows[:1000] == np.clip(np.rint(rows[:1000]), 0, 255)).all()


def row_type(d, floats):
    """A row of COPY BINARY of (id int, v vector(d)), or v halfvec(d)."""
    return np.dtype([("fields", ">i2"), ("l1", ">i4"), ("id", ">i4"), ("l2", ">i4"), ("dim", ">i2"), ("zero", ">i2"),
                     ("v", ">f4" if floats else ">f2", (d,))])


def others_of(query):
    """Queries beside those with truth: the rest, or where these are few, all with noise as rows get it."""
    if len(query) >= QUERIES + OTHERS:
        return query[QUERIES:QUERIES + OTHERS].astype(np.float32)
    rng, of = np.random.default_rng(2), query.astype(np.float32)
    strength = rng.uniform(*NOISE, (OTHERS, 1)).astype(np.float32)
    return of[np.arange(OTHERS) % len(of)] + strength * of.std(0) * rng.standard_normal((OTHERS, of.shape[1]), np.float32)


class Cores:
    """Makes pieces of rows with numpy: of bytes again bytes, of rows of unit length again such, whatever the noise."""

    def __init__(self, base, query, floats):
        self.kinds(base, floats)
        self.base, self.query = base, query[:QUERIES].astype(np.float32)
        self.deviation = base[:10000].astype(np.float32).std(0)
        self.best = np.full((len(self.query), TRUTH), np.inf, np.float32)
        self.ids = np.full((len(self.query), TRUTH), -1, np.int32)

    def kinds(self, base, floats):
        self.floats, self.whole = floats, base.dtype == np.uint8
        lengths = np.linalg.norm(base[:1000].astype(np.float32), axis=1)
        self.unit = bool((abs(lengths - 1) < 1e-3).all())

    def rows(self, first, n):
        """Rows [first, first + n), float32."""
        at = np.arange(first, first + n)
        rows = self.base[at % len(self.base)].astype(np.float32)
        new = at >= len(self.base)
        if new.any():
            rng = np.random.default_rng(first)
            strength = rng.uniform(*NOISE, (int(new.sum()), 1)).astype(np.float32)
            noise = rng.standard_normal((int(new.sum()), rows.shape[1]), np.float32)
            rows[new] += strength * self.deviation * noise
            if self.whole:
                rows[new] = np.clip(np.rint(rows[new]), 0, 255)
            if self.unit:
                rows[new] /= np.linalg.norm(rows[new], axis=1, keepdims=True)
        return rows if self.floats else rows.astype(np.float16).astype(np.float32)

    def copied(self, rows, first):
        """The bytes of COPY BINARY."""
        d = rows.shape[1]
        out = np.zeros(len(rows), row_type(d, self.floats))
        out["fields"], out["l1"], out["l2"], out["dim"] = 2, 4, 4 + d * (4 if self.floats else 2), d
        out["id"], out["v"] = np.arange(first, first + len(rows)), rows
        return out

    def compare(self, rows, first):
        """Keeps the nearest rows of each query so far."""
        for i in range(0, len(rows), BLOCK):
            block = rows[i:i + BLOCK]
            d = (block * block).sum(1)[None] - 2 * self.query @ block.T
            k = min(TRUTH, len(block))
            near = np.argpartition(d, k - 1, axis=1)[:, :k]
            best = np.concatenate([self.best, np.take_along_axis(d, near, 1)], 1)
            ids = np.concatenate([self.ids, (near + first + i).astype(np.int32)], 1)
            order = np.argsort(best, axis=1, kind="stable")[:, :TRUTH]
            self.best, self.ids = np.take_along_axis(best, order, 1), np.take_along_axis(ids, order, 1)

    def nearest(self):
        """(ids, squared distances less that of the query), nearest first."""
        return self.ids, self.best

    def rest(self):
        pass


class Gpu(Cores):
    """The same with PyTorch on a GPU."""

    def __init__(self, base, query, floats):
        import torch
        torch.backends.cuda.matmul.allow_tf32 = False
        self.kinds(base, floats)
        self.torch = torch
        self.base = torch.from_numpy(base).cuda()
        self.query = torch.from_numpy(query[:QUERIES].astype(np.float32)).cuda()
        self.deviation = self.base[:10000].float().std(0)
        self.best = torch.full((len(self.query), TRUTH), float("inf"), device="cuda")
        self.ids = torch.full((len(self.query), TRUTH), -1, dtype=torch.int64, device="cuda")
        self.host = None

    def rows(self, first, n):
        torch = self.torch
        at = torch.arange(first, first + n, device="cuda")
        rows = self.base[at % len(self.base)].float()
        generator = torch.Generator("cuda").manual_seed(first)
        strength = torch.rand((n, 1), generator=generator, device="cuda") * (NOISE[1] - NOISE[0]) + NOISE[0]
        noise = torch.randn(rows.shape, generator=generator, device="cuda") * strength * self.deviation
        new = (at >= len(self.base))[:, None]
        rows += noise * new
        if self.whole:
            rows = rows.round_().clamp_(0, 255)
        if self.unit:
            rows = torch.where(new, rows / rows.norm(dim=1, keepdim=True), rows)
        return rows if self.floats else rows.half().float()

    def copied(self, rows, first):
        torch, (n, d), width = self.torch, rows.shape, 4 if self.floats else 2
        head = Cores.copied(self, np.zeros((1, d), np.float32), 0).view(np.uint8)
        out = torch.from_numpy(head).cuda().repeat(n, 1)
        ids = torch.arange(first, first + n, dtype=torch.int32, device="cuda")
        out[:, 6:10] = ids.view(torch.uint8).view(n, 4).flip(1)
        out[:, 18:] = (rows if self.floats else rows.half()).contiguous().view(torch.uint8).view(n, d, width).flip(2).reshape(n, width * d)
        if self.host is None or len(self.host) < n:
            self.host = torch.empty(out.shape, dtype=torch.uint8, pin_memory=True)
        self.host[:n].copy_(out)
        return self.host[:n].numpy()

    def compare(self, rows, first):
        torch = self.torch
        d = (rows * rows).sum(1)[None] - 2 * self.query @ rows.T
        near = torch.topk(d, min(TRUTH, len(rows)), largest=False)
        best = torch.cat([self.best, near.values], 1)
        ids = torch.cat([self.ids, near.indices + first], 1)
        self.best, order = torch.topk(best, TRUTH, largest=False)
        self.ids = torch.gather(ids, 1, order)

    def nearest(self):
        return self.ids.int().cpu().numpy(), self.best.cpu().numpy()

    def rest(self):
        """Gives the GPU's memory back, but for the rows and a context."""
        self.torch.cuda.empty_cache()


def has_gpu():
    try:
        import torch
        return torch.cuda.is_available()
    except ImportError:
        return False


def grown(base, n, path):
    """The rows of base, and beyond their number the same with noise, n in all: written to an .fbin file, and read_matrix() of it."""
    of = np.array(base, np.uint8 if are_bytes(base) else np.float32)
    maker = (Gpu if has_gpu() else Cores)(of, of[:1], True)
    piece = PIECE_BYTES // 4 // base.shape[1]
    with open(path, "wb") as f:
        np.array([n, base.shape[1]], np.int32).tofile(f)
        for first in range(0, n, piece):
            rows = maker.rows(first, min(piece, n - first))
            (rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()).tofile(f)
    return read_matrix(path)


def make(args, sizes, scratch, work, wanted, ready, room):
    """
    The process's main.  Puts ("", dimensions) into `ready` once it can begin.  For each number of rows that arrives in `wanted` puts (path,
    rows) of its pieces, and (None, 0) after data folders work/truth-ROWS with the queries and their nearest, and work/others.  At most as many
    pieces lie there as `room` lets.
    """
    since = time.time()
    base, query = of_folder(args.base) if args.base else of_photographs(args.images, scratch)
    floats = args.type == "vector"
    if args.fingerprint:
        from fingerprint import Drawn
        maker = Drawn(base, query, floats)
        query = maker.queries
    else:
        maker = (Gpu if args.device == "gpu" else Cores)(base, query, floats)
    piece = PIECE_BYTES // row_type(base.shape[1], floats).itemsize
    print(f"{len(base):,} rows of {base.shape[1]} dimensions, {len(query):,} queries, on the {args.device}: {time.time() - since:.1f} s",
          flush=True)
    ready.put(("", base.shape[1]))
    done = 0
    for size in sizes:
        if wanted.get() is None:
            break
        while done < size:
            n = min(piece, size - done)
            rows = maker.rows(done, n)
            room.acquire()
            path = f"{scratch}/piece-{done}"
            with open(path, "wb") as f:
                f.write(b"PGCOPY\n\xff\r\n\0" + b"\0" * 8)
                maker.copied(rows, done).tofile(f)
                f.write(b"\xff\xff")
            ready.put((path, n))
            maker.compare(rows, done)
            done += n
        os.makedirs(f"{work}/truth-{size}", exist_ok=True)
        save_matrix(f"{work}/truth-{size}/query.fbin", query[:QUERIES].astype(np.float32))
        os.makedirs(f"{work}/others", exist_ok=True)
        save_matrix(f"{work}/others/query.fbin", others_of(query))
        ids, distances = maker.nearest()
        save_matrix(f"{work}/truth-{size}/gt.ibin", ids)
        print(f"of {len(ids)} queries {(distances[:, 9] == distances[:, 10]).sum()} have an eleventh row as near as the tenth", flush=True)
        maker.rest()
        ready.put((None, 0))
