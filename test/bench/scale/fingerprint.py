#!/usr/bin/env python3
"""Rows in any number with the neighborhoods of real rows: drawn from a fingerprint of these, none of them a copy.

A fingerprint has the share, the mean and the covariance of clusters of real rows (k-means).  A row is drawn from one cluster's normal
distribution.  NVIDIA's cuvs_bench.synthesize_dataset rests on the same idea.  More clusters follow the real rows more closely, but with
too few rows in each a covariance says that neighbors lie in fewer directions than they do.  So several numbers of clusters are tried, and
the one stays whose rows are most like as many real rows, as the real queries and drawn ones see them: by the intrinsic dimension and by
the distance of the tenth neighbor (looks()).  Needs PyTorch.

  fingerprint.py --images BSDS500.tar --rows 10000000 --out FOLDER

writes a data folder for other benchmarks: base.fbin, query.fbin and gt.ibin (bench.py --fingerprint draws its rows itself).
"""
import argparse
import math
import os
import sys
import tempfile
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rows as rows_of  # noqa: E402
from common import save_matrix  # noqa: E402

CLUSTERS = (256, 1024, 4096, 16384)     # numbers tried
ROUNDS = 8              # of k-means
OF_A_CLUSTER = 64       # rows in the sample of k-means
RIDGE = 1e-3            # of the mean variance, added to each direction's
LOOKED_AT = 1000000     # rows compared with the queries
NEIGHBORS = 100
BLOCK = 16384           # rows whose clusters are found at once
TOGETHER = 32           # rows of a cluster multiplied by its factor at once

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def nearest_cluster(rows, means):
    """The cluster of each row."""
    half = (means * means).sum(1) / 2
    return torch.cat([(half - rows[i:i + BLOCK].float() @ means.T).argmin(1) for i in range(0, len(rows), BLOCK)])


def looks(rows, query):
    """
    How rows look from the queries: (intrinsic dimension, distance of the tenth neighbor), medians.  The dimension is the maximum likelihood
    estimate of Levina and Bickel, from NEIGHBORS distances.
    """
    best = torch.full((len(query), NEIGHBORS), float("inf"), device=DEVICE)
    for i in range(0, len(rows), 8 * BLOCK):
        block = rows[i:i + 8 * BLOCK].float()
        squares = ((block * block).sum(1) - 2 * query @ block.T + (query * query).sum(1)[:, None]).clamp_(min=1e-6)
        best = torch.topk(torch.cat([best, squares], 1), NEIGHBORS, largest=False).values
    best = best.sort(1).values
    return (2 / (best[:, -1:] / best).log().mean(1)).median().item(), best[:, 9].sqrt().median().item()


class Fingerprint:
    def __init__(self, base, clusters):
        """Of the rows of base, a tensor."""
        generator = torch.Generator("cpu").manual_seed(clusters)
        chosen = torch.randperm(len(base), generator=generator)[:clusters * OF_A_CLUSTER]
        sample = base[chosen.to(DEVICE)].float()
        means = sample[:clusters].clone()
        for _ in range(ROUNDS):
            of = nearest_cluster(sample, means)
            count = torch.bincount(of, minlength=clusters).float()[:, None]
            sums = torch.zeros_like(means).index_add_(0, of, sample)
            means = torch.where(count > 0, sums / count.clamp(min=1), means)
        of = nearest_cluster(base, means)
        count = torch.bincount(of, minlength=clusters)
        order, ends = of.argsort(), count.cumsum(0).tolist()
        self.share, d = count.double() / len(base), base.shape[1]
        covariances = torch.zeros(clusters, d, d, device=DEVICE)
        for c in range(clusters):
            first = ends[c - 1] if c else 0
            if ends[c] - first > 1:
                members = base[order[first:ends[c]]].float()
                means[c] = members.mean(0)
                members -= means[c]
                covariances[c] = members.T @ members / (ends[c] - first - 1)
        traces = covariances.diagonal(dim1=1, dim2=2).mean(1)
        covariances += torch.eye(d, device=DEVICE) * (RIDGE * traces + 1e-9)[:, None, None]
        self.means, self.factors = means, torch.linalg.cholesky(covariances)

    def draw(self, n, seed):
        """n rows, float32, in a random order."""
        generator = torch.Generator(DEVICE).manual_seed(seed)
        of = torch.multinomial(self.share.float(), n, replacement=True, generator=generator).sort().values
        count = torch.bincount(of, minlength=len(self.share))
        blocks = (count + TOGETHER - 1) // TOGETHER
        cluster = torch.repeat_interleave(torch.arange(len(blocks), device=DEVICE), blocks)
        # the place of each row among the blocks of its cluster
        rank = torch.arange(n, device=DEVICE) - (count.cumsum(0) - count)[of]
        place = (blocks.cumsum(0) - blocks)[of] * TOGETHER + rank
        normal = torch.randn((len(cluster), TOGETHER, self.means.shape[1]), generator=generator, device=DEVICE)
        rows = torch.cat([torch.bmm(normal[i:i + 4096], self.factors[cluster[i:i + 4096]].transpose(1, 2))
                          for i in range(0, len(cluster), 4096)]).view(-1, self.means.shape[1])[place] + self.means[of]
        return rows[torch.randperm(n, generator=generator, device=DEVICE)]


class Drawn(rows_of.Gpu if DEVICE == "cuda" else rows_of.Cores):
    """Pieces of rows that are drawn from a fingerprint of base; the queries are drawn as well."""

    def __init__(self, base, query, floats):
        self.kinds(base, floats)
        real = torch.from_numpy(base).to(DEVICE)
        asked = torch.from_numpy(query[:rows_of.QUERIES].astype(np.float32)).to(DEVICE)
        sample = real[:LOOKED_AT]
        wanted, best = looks(sample, asked), None
        for clusters in CLUSTERS:
            if clusters * real.shape[1] > len(real) and best:
                break
            since = time.time()
            self.fingerprint = Fingerprint(real, clusters)
            seen = looks(self.drawn(len(sample), 1), self.drawn(len(asked), 2))
            apart = sum(abs(math.log(a / b)) for a, b in zip(seen, wanted))
            print(f"{clusters} clusters: intrinsic dimension {seen[0]:.2f} of {wanted[0]:.2f}, tenth neighbor at {seen[1]:.1f} of "
                  f"{wanted[1]:.1f}: {time.time() - since:.1f} s", flush=True)
            if best is None or apart < best[0]:
                best = apart, self.fingerprint
        del real, sample
        chosen = self.fingerprint = best[1]
        print(f"rows are drawn from {len(chosen.share)} clusters", flush=True)
        self.queries = self.drawn(rows_of.QUERIES + rows_of.OTHERS, 2).cpu().numpy()
        super().__init__(base[:10000], self.queries, floats)

    def drawn(self, n, seed):
        rows = self.fingerprint.draw(n, seed)
        if self.whole:
            rows = rows.round_().clamp_(0, 255)
        if self.unit:
            rows = rows / rows.norm(dim=1, keepdim=True)
        return rows if self.floats else rows.half().float()

    def rows(self, first, n):
        rows = self.drawn(n, 3 + first)
        return rows if DEVICE == "cuda" else rows.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", help="photographs: a folder, or a tar")
    parser.add_argument("--base", help="instead: a folder of base.fbin and query.fbin")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if bool(args.images) == bool(args.base):
        parser.error("give --images or --base")
    with tempfile.TemporaryDirectory() as scratch:
        base, query = rows_of.of_folder(args.base) if args.base else rows_of.of_photographs(args.images, scratch)
    os.makedirs(args.out, exist_ok=True)
    maker = Drawn(base, query, True)
    piece = rows_of.PIECE_BYTES // 4 // base.shape[1]
    with open(f"{args.out}/base.fbin", "wb") as f:
        np.array([args.rows, base.shape[1]], np.int32).tofile(f)
        for first in range(0, args.rows, piece):
            rows = maker.rows(first, min(piece, args.rows - first))
            maker.compare(rows, first)
            np.asarray(rows if isinstance(rows, np.ndarray) else rows.cpu(), np.float32).tofile(f)
    save_matrix(f"{args.out}/query.fbin", maker.queries[:rows_of.QUERIES])
    save_matrix(f"{args.out}/gt.ibin", maker.nearest()[0])


if __name__ == "__main__":
    main()
