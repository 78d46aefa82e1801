#!/usr/bin/env python3
"""Makes a data folder of another one's rows, in fewer dimensions and of unit length.

  reduce.py FOLDER DIMENSIONS OUT

Rows are turned to the principal directions of the base rows, cut and normalized, which is how
DEEP's descriptors were made of a network's last layer.  Uses torch, on a GPU where there is one.
"""
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import read_matrix, save_matrix  # noqa: E402
from nearest import nearest  # noqa: E402


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder, dims, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base, query = (torch.as_tensor(np.array(read_matrix(f"{folder}/{f}.fbin")), device=device) for f in ("base", "query"))
    mean = base.mean(0)
    variance, directions = torch.linalg.eigh((base - mean).T @ (base - mean) / len(base))
    kept = directions[:, -dims:]
    base, query = (torch.nn.functional.normalize((x - mean) @ kept, dim=1) for x in (base, query))
    base, query = base.cpu().numpy(), query.cpu().numpy()
    os.makedirs(out, exist_ok=True)
    save_matrix(f"{out}/base.fbin", base)
    save_matrix(f"{out}/query.fbin", query)
    save_matrix(f"{out}/gt.ibin", nearest(base, query, False))
    print(f"{dims} of {len(mean)} dimensions, {float(variance[-dims:].sum() / variance.sum()):.4f} of the variance")


if __name__ == "__main__":
    main()
