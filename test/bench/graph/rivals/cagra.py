#!/usr/bin/env python3
"""Builds a CAGRA graph with cuVS from rows on the device and writes it as .ibin.

  cagra.py BASE.fbin GRAPH.ibin ALGORITHM DEGREE INTERMEDIATE METRIC BUILDS

ALGORITHM: ivf_pq, nn_descent or iterative_cagra_search.  Prints "seconds X" of the fastest
build, the device synchronized before and after, and "device_mb X", what the first build took
beyond the rows.  A build of few rows comes before them: it loads the kernels.
"""
import subprocess
import sys
import time

import cupy as cp
import numpy as np
from cuvs.neighbors import cagra

WARM_ROWS = 20000
# asks NVML every 5 ms until its input ends, then prints the growth in bytes
WATCHER = """
import ctypes, select, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
first = most = memory[2]
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0.005)[0]:
    nvml.nvmlDeviceGetMemoryInfo(device, memory)
    most = max(most, memory[2])
print(most - first)
"""


class Watch:
    """The most device memory in use beyond what was, as the driver tells another process."""

    def __enter__(self):
        cp.get_default_memory_pool().free_all_blocks()
        self.other = subprocess.Popen([sys.executable, "-c", WATCHER], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.other.stdout.readline()  # it has begun
        return self

    def __exit__(self, *_):
        words = self.other.communicate()[0].split()
        self.mb = float(words[0]) / 1e6 if words else None


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
    if watch.mb is not None:
        print(f"device_mb {watch.mb:.0f}")
    print(f"seconds {best:.4f}")
    ids = np.asarray(index.graph.copy_to_host()).astype(np.int32)
    with open(graph, "wb") as f:
        np.array(ids.shape, np.int32).tofile(f)
        np.ascontiguousarray(ids).tofile(f)


if __name__ == "__main__":
    main()
