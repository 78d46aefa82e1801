#!/usr/bin/env python3
"""Makes a data folder for the benchmarks of a folder of photographs.

  vectors.py sift IMAGES OUT [--rows N]     SIFT descriptors, 128 dimensions (OpenCV)
  vectors.py gist IMAGES OUT [--rows N]     GIST descriptors of random crops, 960 dimensions
                                            (Oliva and Torralba 2001; PyTorch)

Writes OUT/base.fbin, OUT/query.fbin (10,000 rows, from every 25th photograph, which gives no base
row) and OUT/gt.ibin (the exact 100 nearest base rows of each query, by L2).  IMAGES holds 26 .jpg
files at least, at any depth; 288 of BSDS500's training and validation photographs give a million
rows of each kind.  Uses a GPU through PyTorch where there is one; without PyTorch numpy finds the
neighbors (slow past 100,000 rows).
"""
import argparse
import glob
import math
import os
import sys
import time
from multiprocessing import Pool

import numpy as np

from common import save_matrix

try:
    import cv2
except ImportError:
    cv2 = None
try:
    import torch
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
except ImportError:
    torch = None

SIDE = 48  # pixels of a GIST crop


def sift_of(path):
    cv2.setNumThreads(1)
    image = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise ValueError(f"{path} is no image")
    image = cv2.resize(image, None, fx=2.0, fy=2.0, interpolation=cv2.INTER_CUBIC)
    _, d = cv2.SIFT_create(contrastThreshold=0.005, edgeThreshold=20).detectAndCompute(image, None)
    return np.asarray(d, np.uint8)


def sift(files, n, seed):
    with Pool() as pool:
        rows = np.concatenate(pool.map(sift_of, files, chunksize=2))
    order = np.random.default_rng(seed).permutation(len(rows))[:n]
    return rows[order].astype(np.float32)


def gabor_bank():
    fx = torch.fft.fftfreq(SIDE).view(1, SIDE)
    fy = torch.fft.fftfreq(SIDE).view(SIDE, 1)
    radius, angle = torch.sqrt(fx**2 + fy**2), torch.atan2(fy + 0 * fx, fx + 0 * fy)
    bank = []
    for scale, orientations in enumerate([8, 8, 4]):
        center = 0.32 / 1.85**scale
        for o in range(orientations):
            turn = torch.remainder(angle - math.pi * o / orientations + math.pi, 2 * math.pi) - math.pi
            bank.append(torch.exp(-3.5 * (radius / center - 1) ** 2
                                  - 2 * (16 * orientations**2 / 32**2) * math.pi * turn**2))
    return torch.stack(bank).to(DEVICE)


def gist(files, n, seed):
    rng, bank, rows = np.random.default_rng(seed), gabor_bank(), []
    per = -(-n // len(files))
    for path in files:
        image = torch.tensor(cv2.imread(path)[:, :, ::-1].copy(), device=DEVICE, dtype=torch.float32)
        image = image.permute(2, 0, 1)[None] / 255
        height, width = image.shape[2:]
        scale, cx, cy = (torch.tensor(rng.uniform(a, b, per), device=DEVICE, dtype=torch.float32)
                         for a, b in ((0.15, 0.5), (-0.5, 0.5), (-0.5, 0.5)))
        zero = torch.zeros_like(scale)
        crop = torch.stack([torch.stack([scale, zero, cx], 1),
                            torch.stack([zero, scale * width / height, cy], 1)], 1)
        for i in range(0, per, 512):
            m = crop[i:i + 512]
            grid = torch.nn.functional.affine_grid(m, (len(m), 3, SIDE, SIDE), align_corners=False)
            patch = torch.nn.functional.grid_sample(image.expand(len(m), -1, -1, -1), grid, align_corners=False)
            response = torch.fft.ifft2(torch.fft.fft2(patch)[:, :, None] * bank).abs()
            pooled = torch.nn.functional.adaptive_avg_pool2d(response.view(len(m) * 3, len(bank), SIDE, SIDE), 4)
            rows.append(pooled.view(len(m), -1).cpu().numpy())
    rows = np.concatenate(rows)
    return rows[np.random.default_rng(seed + 1).permutation(len(rows))[:n]]


def exact(base, query, k=100):
    norms, out = (base * base).sum(1), []
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = False
        b, q, norms = (torch.tensor(a, device=DEVICE) for a in (base, query, norms))
        for i in range(0, len(q), 500):
            d = norms[None] - 2 * q[i:i + 500] @ b.T
            out.append(torch.topk(d, k, largest=False).indices.int().cpu().numpy())
    else:
        for i in range(0, len(query), 100):
            d = norms[None] - 2 * query[i:i + 100] @ base.T
            near = np.argpartition(d, k, axis=1)[:, :k]
            out.append(np.take_along_axis(near, np.take_along_axis(d, near, 1).argsort(1), 1).astype(np.int32))
    return np.concatenate(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=("sift", "gist"))
    p.add_argument("images", metavar="IMAGES")
    p.add_argument("out", metavar="OUT")
    p.add_argument("--rows", type=int, default=1000000, metavar="N", help="base rows (default 1,000,000)")
    args = p.parse_args()
    files = sorted(glob.glob(args.images + "/**/*.jpg", recursive=True))
    if len(files) < 26:
        sys.exit(f"{args.images}: fewer than 26 .jpg files")
    if cv2 is None or (args.kind == "gist" and torch is None):
        sys.exit("not installed: " + ("OpenCV (opencv-python-headless)" if cv2 is None else "PyTorch, which gist needs"))
    os.makedirs(args.out, exist_ok=True)
    start, make = time.time(), {"sift": sift, "gist": gist}[args.kind]
    held = files[::25]
    base, query = make([f for f in files if f not in set(held)], args.rows, 7), make(held, 10000, 11)
    save_matrix(f"{args.out}/base.fbin", base)
    save_matrix(f"{args.out}/query.fbin", query)
    save_matrix(f"{args.out}/gt.ibin", exact(base, query))
    print(f"{args.kind}: base {base.shape}, query {query.shape}, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
