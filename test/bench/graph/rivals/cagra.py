#!/usr/bin/env python3
"""Builds a CAGRA graph with cuVS from rows on the device and writes it as .ibin.

  cagra.py BASE.fbin GRAPH.ibin ALGORITHM DEGREE INTERMEDIATE METRIC BUILDS

ALGORITHM: ivf_pq, nn_descent or iterative_cagra_search.  Prints "seconds X" of the fastest
build, the device synchronised before and after, and "device_mb X", what the first build
took beyond the rows (sampled every millisecond).
"""
import sys
import threading
import time

import cupy as cp
import numpy as np
from cuvs.neighbors import cagra


def used():
    free, total = cp.cuda.runtime.memGetInfo()
    return total - free


def build_watched(params, rows):
    """A build and the most device memory taken meanwhile, beyond what was in use."""
    before, most, over = used(), [0], threading.Event()

    def watch():
        while not over.is_set():
            most[0] = max(most[0], used() - before)
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    index = cagra.build(params, rows)
    cp.cuda.runtime.deviceSynchronize()
    over.set()
    watcher.join()
    return index, most[0]


def main():
    if len(sys.argv) != 8:
        sys.exit(__doc__)
    base, graph, algorithm, degree, intermediate, metric, builds = sys.argv[1:]
    n, dim = (int(x) for x in np.fromfile(base, np.int32, 2))
    rows = cp.asarray(np.fromfile(base, np.float32, n * dim, offset=8).reshape(n, dim))
    params = cagra.IndexParams(
        metric={"l2": "sqeuclidean", "cosine": "cosine", "ip": "inner_product"}[metric],
        graph_degree=int(degree), intermediate_graph_degree=int(intermediate), build_algo=algorithm)
    cp.cuda.runtime.deviceSynchronize()
    index, peak = build_watched(params, rows)
    best = float("inf")
    for _ in range(int(builds)):
        del index
        cp.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        index = cagra.build(params, rows)
        cp.cuda.runtime.deviceSynchronize()
        best = min(best, time.perf_counter() - start)
    print(f"device_mb {peak / 1e6:.0f}")
    print(f"seconds {best:.4f}")
    ids = np.asarray(index.graph.copy_to_host()).astype(np.int32)
    with open(graph, "wb") as f:
        np.array(ids.shape, np.int32).tofile(f)
        np.ascontiguousarray(ids).tofile(f)


if __name__ == "__main__":
    main()
