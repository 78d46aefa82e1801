#!/usr/bin/env python3
"""Builds a CAGRA graph with cuVS from rows on the device and writes it as .ibin.

  cagra.py BASE.fbin GRAPH.ibin ALGORITHM DEGREE INTERMEDIATE METRIC BUILDS

ALGORITHM: ivf_pq, nn_descent or iterative_cagra_search.  Prints "seconds X" of the fastest
build, the device synchronised before and after, and "device_mb X", what the first build took
beyond the rows.  A build of few rows comes before them: it loads the kernels.
"""
import subprocess
import sys
import time

import cupy as cp
import numpy as np
from cuvs.neighbors import cagra

WARM_ROWS = 20000


class Watch:
    """The most device memory in use, in MB, as nvidia-smi sees it every 20 ms."""

    def __enter__(self):
        cp.get_default_memory_pool().free_all_blocks()
        self.smi = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                                     "-i", "0", "-lms", "20"], stdout=subprocess.PIPE, text=True)
        self.before = int(self.smi.stdout.readline())
        return self

    def __exit__(self, *_):
        self.smi.terminate()
        seen = [int(line) for line in self.smi.stdout.read().split("\n") if line.isdigit()]
        self.peak = max(seen + [self.before]) - self.before


def timed(params, rows):
    cp.cuda.runtime.deviceSynchronize()
    start = time.perf_counter()
    index = cagra.build(params, rows)
    cp.cuda.runtime.deviceSynchronize()
    return index, time.perf_counter() - start


def main():
    if len(sys.argv) != 8:
        sys.exit(__doc__)
    base, graph, algorithm, degree, intermediate, metric, builds = sys.argv[1:]
    n, dim = (int(x) for x in np.fromfile(base, np.int32, 2))
    rows = cp.asarray(np.fromfile(base, np.float32, n * dim, offset=8).reshape(n, dim))
    params = cagra.IndexParams(
        metric={"l2": "sqeuclidean", "cosine": "cosine", "ip": "inner_product"}[metric],
        graph_degree=int(degree), intermediate_graph_degree=int(intermediate), build_algo=algorithm)
    timed(params, rows[:WARM_ROWS])
    with Watch() as watch:
        index, best = timed(params, rows)
    for _ in range(int(builds) - 1):
        del index
        index, seconds = timed(params, rows)
        best = min(best, seconds)
    print(f"device_mb {watch.peak * 1.048576:.0f}")
    print(f"seconds {best:.4f}")
    ids = np.asarray(index.graph.copy_to_host()).astype(np.int32)
    with open(graph, "wb") as f:
        np.array(ids.shape, np.int32).tofile(f)
        np.ascontiguousarray(ids).tofile(f)


if __name__ == "__main__":
    main()
