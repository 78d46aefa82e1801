"""The Python of doc/grnnd-examples.md, as it stands there, over some of the sample.

The model that makes embeddings, embed(), is the page's reader's; here it knows the sample's queries.
"""
import contextlib
import io
import os
import re
import subprocess
import sys

import client
import numpy as np
from client import same

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
ROWS = 3000
QUESTION = 'a small boat that pulls ships'
TUGBOAT = 218


def sample(name, most):
    """Rows of the sample: (id, text, vector)."""
    with subprocess.Popen([sys.executable, os.path.join(TOP, 'test/data/sample.py'), name],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as made:
        for i, line in zip(range(most), made.stdout):
            yield line.rstrip('\n').split('\t')


def main():
    with open(os.path.join(TOP, 'doc/grnnd-examples.md'), encoding='utf-8') as page:
        blocks = re.findall(r'^```python\n(.*?)^```$', page.read(), re.S | re.M)
    same(len(blocks), 1, 'the page has a block')
    glosses = list(sample('glosses', ROWS))
    question = next(v for i, _, v in sample('queries', TUGBOAT) if int(i) == TUGBOAT)
    with client.connect(autocommit=True) as conn:
        conn.execute('CREATE TABLE glosses (id int PRIMARY KEY, text text, embedding vector(384))')
        with conn.cursor().copy('COPY glosses FROM STDIN') as copy:
            for row in glosses:
                copy.write_row(row)
        conn.execute('CREATE INDEX glosses_embedding ON glosses USING grnnd (embedding vector_cosine_ops)')
        conn.execute('ANALYZE glosses')
    asked = []

    def embed(text):
        asked.append(text)
        return np.array([float(x) for x in question.strip('[]').split(',')], dtype=np.float32)

    os.environ['PGDATABASE'] = 'postgres'
    # so wide that a search finds all five, whatever the graph
    os.environ['PGOPTIONS'] = '-c grnnd.ef_search=200'
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(blocks[0], 'doc/grnnd-examples.md', 'exec'), {'embed': embed})
    x = np.array([[float(v) for v in row[2].strip('[]').split(',')] for row in glosses])
    y = embed(None)
    near = np.argsort(-(x @ y) / np.linalg.norm(x, axis=1))[:5]
    lines = shown.getvalue().splitlines()
    same(asked[0], QUESTION, 'the question goes to the model')
    same([line.split(None, 1)[1] for line in lines], [glosses[i][1] for i in near], 'the nearest entries')
    client.scanned('glosses_embedding', 1, 'by the index')


client.run(main)
