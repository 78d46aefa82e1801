#!/usr/bin/env python3
"""Finds photographs that look alike.

  pip install "psycopg[binary]" numpy pillow
  PGHOST=... PGUSER=postgres python3 photo_search.py add FOLDER
  PGHOST=... PGUSER=postgres python3 photo_search.py find IMAGE [--limit 5]

describe() computes a photograph's vector without a model: directions of edges and mean colors by place.  Copies in
other sizes, cuts and exposures are found, and similar views.  For photographs of the same thing, put a model there.
"""
import argparse
import json
import os

import numpy as np
import psycopg
from PIL import Image, ImageOps

SIDE = 64           # pixels of the square to which a photograph is scaled
CELLS = 4           # places along each side
DIRECTIONS = 8
DIM = CELLS * CELLS * (DIRECTIONS + 3)


def by_cell(pixels):
    """Means of float[SIDE, SIDE] over each cell: float[CELLS * CELLS]."""
    return pixels.reshape(CELLS, SIDE // CELLS, CELLS, SIDE // CELLS).mean((1, 3)).ravel()


def describe(path):
    """The vector of a file with an image: float[DIM]."""
    with Image.open(path) as image:
        pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB").resize((SIDE, SIDE)), np.float32) / 255
    down, right = np.gradient(pixels.mean(2))
    direction = np.floor(np.arctan2(down, right) / np.pi * DIRECTIONS) % DIRECTIONS
    edges = np.concatenate([by_cell(np.hypot(down, right) * (direction == d)) for d in range(DIRECTIONS)])
    colors = np.concatenate([by_cell(pixels[:, :, c]) for c in range(3)])
    # contrast and exposure count little: root of the edges, colors without the mean, each of length 1
    parts = np.sqrt(edges), colors - colors.mean()
    return np.concatenate([part / max(np.linalg.norm(part), 1e-6) for part in parts])


def text(vector):
    """As pgvector reads a vector."""
    return json.dumps(vector.tolist())


def add(conn, folder):
    """Adds a folder's photographs to the table, or describes them anew; yields paths that hold no image."""
    conn.execute("CREATE EXTENSION IF NOT EXISTS grnnd CASCADE")
    conn.execute(f"CREATE TABLE IF NOT EXISTS photos (path text PRIMARY KEY, embedding vector({DIM}) NOT NULL)")
    for path in sorted(entry.path for entry in os.scandir(folder) if entry.is_file()):
        try:
            vector = describe(path)
        except OSError:
            yield path
            continue
        conn.execute(
            """INSERT INTO photos VALUES (%s, %s::vector)
               ON CONFLICT (path) DO UPDATE SET embedding = EXCLUDED.embedding""",
            (path, text(vector)))
    conn.execute("CREATE INDEX IF NOT EXISTS photos_embedding ON photos USING grnnd (embedding vector_l2_ops)")
    conn.execute("ANALYZE photos")


def find(conn, path, limit):
    """The photographs nearest to an image: (distance, path)."""
    vector = text(describe(path))
    return conn.execute(
        "SELECT embedding <-> %(vector)s::vector AS distance, path FROM photos ORDER BY distance LIMIT %(limit)s",
        {"vector": vector, "limit": limit}).fetchall()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("folder")
    finding = commands.add_parser("find")
    finding.add_argument("image")
    finding.add_argument("--limit", type=int, default=5)
    args = parser.parse_args()
    with psycopg.connect() as conn:
        if args.command == "add":
            for path in add(conn, args.folder):
                print(f"no image: {path}")
            print(conn.execute("SELECT count(*) FROM photos").fetchone()[0], "photographs")
        else:
            for distance, path in find(conn, args.image, args.limit):
                print(f"{distance:.3f}  {path}")


if __name__ == "__main__":
    main()
