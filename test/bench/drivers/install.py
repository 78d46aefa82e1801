#!/usr/bin/env python3
"""Puts grnnd's drivers into a copy of VectorDBBench or ann-benchmarks.

  install.py vectordbbench FOLDER     FOLDER: vectordb_bench, of a checkout or in site-packages
  install.py ann-benchmarks FOLDER    FOLDER: the checkout

A second call changes nothing more.
"""
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def insert(path, known, pairs):
    """Puts text before the first match of each pattern from the last match on, unless the file has `known`."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if known in text:
        return
    at = 0
    for pattern, new in pairs:
        found = re.compile(pattern, re.M).search(text, at)
        if not found:
            sys.exit(f"install.py: {path} has no {pattern!r} where this driver goes: is its version another one?")
        text = text[:found.start()] + new + text[found.start():]
        at = found.end() + len(new)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def vectordbbench(folder):
    shutil.copytree(f"{HERE}/vectordbbench/grnnd", f"{folder}/backend/clients/grnnd", dirs_exist_ok=True)
    branch = "        if self == DB.Grnnd:\n            from .grnnd.{} import {}\n\n            return {}\n\n"
    first = r"^        if self == DB\."
    insert(f"{folder}/backend/clients/__init__.py", "DB.Grnnd", [
        (r"^    Milvus = ", '    Grnnd = "Grnnd"\n'),
        (r"^    def init_cls", ""), (first, branch.format("grnnd", "Grnnd", "Grnnd")),
        (r"^    def config_cls", ""), (first, branch.format("config", "GrnndConfig", "GrnndConfig")),
        (r"^    def case_config_cls", ""), (first, branch.format("config", "GrnndIndexConfig", "GrnndIndexConfig")),
    ])
    insert(f"{folder}/cli/vectordbbench.py", "Grnnd", [
        (r"^from \.\.backend\.clients\.h", "from ..backend.clients.grnnd.cli import Grnnd\n"),
        (r"^cli\.add_command", "cli.add_command(Grnnd)\n"),
    ])


def ann_benchmarks(folder):
    shutil.copytree(f"{HERE}/ann_benchmarks/grnnd", f"{folder}/ann_benchmarks/algorithms/grnnd", dirs_exist_ok=True)
    insert(f"{folder}/.github/workflows/benchmarks.yml", "- grnnd\n", [(r"^ *- hnswlib$", "          - grnnd\n")])


if __name__ == "__main__":
    TARGETS = {"vectordbbench": vectordbbench, "ann-benchmarks": ann_benchmarks}
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    TARGETS[sys.argv[1]](sys.argv[2])
