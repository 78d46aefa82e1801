#!/usr/bin/env python3
"""Writes the sample as COPY text (id, text, vector) to standard output.

  sample.py glosses|queries [FIRST_ID]

Needs nothing but Python: test machines have no numpy.
"""
import array
import gzip
import math
import os
import sys

DIM = 384


def rows(name):
    """Yields (text, vector literal); the int8 rows are scaled to unit length."""
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
        norm = math.sqrt(sum(x * x for x in row))
        # at most 255 different values a row, so few to format
        literal = {x: "%.7g" % (x / norm) for x in set(row)}
        yield text, "[" + ",".join([literal[x] for x in row]) + "]"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("glosses", "queries"):
        sys.exit("usage: sample.py glosses|queries [FIRST_ID]")
    first = int(sys.argv[2]) if len(sys.argv) == 3 else 1
    for i, (text, vector) in enumerate(rows(sys.argv[1])):
        text = text.replace("\\", "\\\\").replace("\t", "\\t")
        sys.stdout.write("%d\t%s\t%s\n" % (first + i, text, vector))


if __name__ == "__main__":
    main()
