#!/usr/bin/env python3
"""Makes a data folder of rows in clusters, 16 dimensions, with 1,000 queries and their exact neighbors.

  clusters.py dense|widths ROWS FOLDER

dense: nine of ten rows in one of 50 clusters of the same width, a hundredth of their space's
widths: 300 clusters, the k-th of share 1 / k, of widths from 0.001 to 0.3 of the distance between centers
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import save_matrix  # noqa: E402

DIM = 16
QUERIES = 1000
BATCH = 20  # queries compared with all rows together


def dense(random, n):
    centers = random.random((50, DIM))
    cluster = np.where(random.random(n) < 0.9, 0, random.integers(1, 50, n))
    return centers[cluster] + 0.01 * random.standard_normal((n, DIM))


def widths(random, n):
    centers = random.standard_normal((300, DIM))
    share = 1 / np.arange(1, 301)
    cluster = random.choice(300, n, p=share / share.sum())
    width = 10 ** random.uniform(-3, -0.5, 300)
    return centers[cluster] + width[cluster, None] * random.standard_normal((n, DIM))


def nearest(base, query):
    """[queries][10] int32 rows, by squared distances in doubles."""
    base, norms = base.astype(float), np.einsum("ij,ij->i", base, base, dtype=float)
    found = []
    for first in range(0, len(query), BATCH):
        distances = norms - 2 * query[first:first + BATCH].astype(float) @ base.T
        near = np.argpartition(distances, 10, axis=1)[:, :10]
        order = np.argsort(np.take_along_axis(distances, near, 1), axis=1)
        found.append(np.take_along_axis(near, order, 1))
    return np.concatenate(found).astype(np.int32)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("dense", "widths"):
        sys.exit(__doc__)
    make, n, folder = {"dense": dense, "widths": widths}[sys.argv[1]], int(sys.argv[2]), sys.argv[3]
    rows = make(np.random.default_rng(1), n + QUERIES).astype(np.float32)
    os.makedirs(folder, exist_ok=True)
    save_matrix(f"{folder}/base.fbin", rows[:n])
    save_matrix(f"{folder}/query.fbin", rows[n:])
    save_matrix(f"{folder}/gt.ibin", nearest(rows[:n], rows[n:]))


if __name__ == "__main__":
    main()
