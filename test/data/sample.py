#!/usr/bin/env python3
"""Writes the sample to standard output.

  sample.py glosses|queries         as COPY text: id, text, vector
  sample.py glosses|queries fbin    as .fbin: int32 rows, int32 columns, float32 rows

Needs nothing but Python: test machines have no numpy.
"""
import array
import gzip
import math
import os
import sys

DIM = 384


def rows(name):
    """Yields (text, int8 row, its norm); row / norm is the embedding."""
    stem = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    data = array.array("b")
    with open(stem + ".i8", "rb") as f:
        data.frombytes(f.read())
    with gzip.open(stem + ".txt.gz", "rt", encoding="utf-8") as f:
        texts = f.read().splitlines()
    if len(data) != len(texts) * DIM:
        sys.exit("sample.py: %s.i8 holds %d values, not %d of %d dimensions"
                 % (stem, len(data), len(texts), DIM))
    for i, text in enumerate(texts):
        row = data[i * DIM:(i + 1) * DIM]
        yield text, row, math.sqrt(sum(x * x for x in row))


def write_copy(name):
    for i, (text, row, norm) in enumerate(rows(name)):
        # at most 255 different values a row, so few to format
        literal = {x: "%.7g" % (x / norm) for x in set(row)}
        sys.stdout.write("%d\t%s\t[%s]\n" % (
            i + 1, text.replace("\\", "\\\\").replace("\t", "\\t"),
            ",".join([literal[x] for x in row])))


def write_fbin(name):
    unit = [array.array("f", [x / norm for x in row]) for _, row, norm in rows(name)]
    sys.stdout.buffer.write(array.array("i", [len(unit), DIM]).tobytes())
    for row in unit:
        sys.stdout.buffer.write(row.tobytes())


def main():
    args = sys.argv[1:]
    if args[1:] not in ([], ["fbin"]) or args[:1] not in (["glosses"], ["queries"]):
        sys.exit("usage: sample.py glosses|queries [fbin]")
    (write_fbin if args[1:] else write_copy)(args[0])


if __name__ == "__main__":
    main()
