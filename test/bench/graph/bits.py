#!/usr/bin/env python3
"""Makes a data folder of rows of 0 and 1: signs of sentence embeddings (test/data/glosses.i8) with noise.

  bits.py FOLDER [--rows N] [--dim D]     base.fbin, query.fbin, gt.ibin (the nearest 10 by Hamming distance)

Rows are embeddings of the sample plus normal noise of half their spread, projected at random to D
dimensions (default 384: not projected), of which the signs stay.  The same rows with one 2 among
them, other.fbin, go up as floats: so grnnd_paper --index --times shows what projections cost instead.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, save_matrix  # noqa: E402

QUERIES = 1000
NEAREST = 10


def signs(sample, rows, projection, rng):
    x = sample[rng.integers(0, len(sample), rows)]
    x = x + rng.normal(0, 0.5 * sample.std(), x.shape).astype(np.float32)
    return (x @ projection if projection is not None else x) > 0


def nearest(base, queries):
    packed = np.packbits(base, axis=1)
    found = []
    try:
        import torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        b = torch.from_numpy(base).to(device).half()
        ones = b.float().sum(1)
        for q in torch.from_numpy(queries).to(device).half().split(100):
            found.append((ones - 2 * (q @ b.T).float()).topk(NEAREST, largest=False).indices.cpu().numpy())
    except ImportError:
        for q in np.packbits(queries, axis=1):
            found.append([np.argsort(np.bitwise_count(packed ^ q).sum(1, dtype=np.int32), kind="stable")[:NEAREST]])
    return np.concatenate(found).astype(np.int32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--dim", type=int, default=384)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    sample = np.fromfile(f"{ROOT}/test/data/glosses.i8", np.int8)
    sample = sample[len(sample) % 384:].reshape(-1, 384).astype(np.float32)
    sample -= sample.mean(0)
    projection = None if args.dim == 384 else rng.normal(size=(384, args.dim)).astype(np.float32)
    os.makedirs(args.folder, exist_ok=True)
    base = signs(sample, args.rows, projection, rng)
    queries = signs(sample, QUERIES, projection, rng)
    save_matrix(f"{args.folder}/gt.ibin", nearest(base, queries))
    save_matrix(f"{args.folder}/query.fbin", queries.astype(np.float32))
    base = base.astype(np.float32)
    save_matrix(f"{args.folder}/base.fbin", base)
    base[0, 0] = 2
    save_matrix(f"{args.folder}/other.fbin", base)


if __name__ == "__main__":
    main()
