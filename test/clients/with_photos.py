"""doc/examples/photo_search.py: copies of photographs in other sizes, cuts and exposures find the photograph.

The photographs are those of the folder GRNND_PHOTOS, or else pictures made here: clouds of color with edges.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile

import client
import numpy as np
from client import ok, same
from PIL import Image, ImageEnhance

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'doc', 'examples', 'photo_search.py')
PICTURES = 60
COPIES = 20


def run(*words):
    """What the program prints: [line]."""
    made = subprocess.run([sys.executable, PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    same((made.returncode, made.stderr), (0, ''), f'{words[0]} {os.path.basename(words[1])}')
    return made.stdout.splitlines()


def make(folder):
    """Pictures: a few colors that run into each other, and straight edges."""
    random = np.random.default_rng(5)
    for i in range(PICTURES):
        colors = random.integers(0, 256, (4, 5, 3), np.uint8)
        picture = Image.fromarray(colors).resize((320, 240), Image.Resampling.BICUBIC)
        for _ in range(6):
            x, y, wide, high = random.integers((0, 0, 20, 20), (300, 220, 120, 90))
            picture.paste(tuple(int(c) for c in random.integers(0, 256, 3)), (int(x), int(y), int(x + wide), int(y + high)))
        picture.save(f'{folder}/{i:03}.jpg')


def copies(image):
    """Copies of an image that are to find it: (what was done, copy)."""
    wide, high = image.size
    yield 'smaller', image.resize((wide // 2, high // 2))
    yield 'darker', ImageEnhance.Brightness(image).enhance(0.7)
    yield 'cut', image.crop((wide // 25, high // 25, wide - wide // 25, high - high // 25))


def main():
    os.environ['PGDATABASE'] = 'postgres'
    spec = importlib.util.spec_from_file_location('photo_search', PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with tempfile.TemporaryDirectory() as work:
        folder = os.environ.get('GRNND_PHOTOS')
        if not folder:
            folder = f'{work}/pictures'
            os.mkdir(folder)
            make(folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith('.jpg'))
        same(run('add', folder)[-1], f'{len(names)} photographs', 'all are added')
        with open(f'{work}/empty.jpg', 'w', encoding='utf-8'):
            pass
        same(run('add', work), [f'no image: {work}/empty.jpg', f'{len(names)} photographs'], 'a file without an image is named')
        best = run('find', f'{folder}/{names[7]}', '--limit', '3')
        same((len(best), best[0]), (3, f'0.000  {folder}/{names[7]}'), 'a photograph finds itself')
        with client.psycopg.connect() as conn:
            conn.execute('SET enable_seqscan = off')
            found = {}
            for name in names[::max(len(names) // COPIES, 1)][:COPIES]:
                with Image.open(f'{folder}/{name}') as image:
                    for what, copy in copies(image):
                        copy.save(f'{work}/copy.png')
                        (_, path), = program.find(conn, f'{work}/copy.png', 1)
                        found.setdefault(what, []).append(path == f'{folder}/{name}')
    for what, good in found.items():
        ok(all(good), f'{what} copies find their photograph', f'{sum(good)} of {len(good)}')
    client.scanned('photos_embedding', len(names[:COPIES]), 'by the index')


client.run(main)
