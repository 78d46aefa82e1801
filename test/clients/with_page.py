"""The Python of doc/grnnd-clients.md, block by block as it stands there, each in a namespace of its own."""
import os
import re
import sys
import tempfile
import types

import client
import django
import numpy as np
import psycopg
from client import ok, same
from django.conf import settings
from langchain_core.embeddings import DeterministicFakeEmbedding

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'doc', 'grnnd-clients.md')
# the index that each block makes, and words of its definition
INDEXES = {
    'psycopg': ('items_embedding', 'USING grnnd (embedding vector_cosine_ops, tenant)'),
    'SQLAlchemy': ('articles_embedding', 'USING grnnd (embedding vector_cosine_ops, tenant)'),
    'Django': ('products_embedding', 'USING grnnd (embedding vector_cosine_ops, tenant)'),
    'LangChain': ('documents_embedding', 'USING grnnd (embedding vector_cosine_ops)'),
    'LlamaIndex': ('data_notes_embedding_idx', 'USING grnnd (embedding vector_cosine_ops)'),
}


def definition(name):
    with psycopg.connect('dbname=shop') as conn:
        return conn.execute('SELECT max(indexdef) FROM pg_indexes WHERE indexname = %s', (name,)).fetchone()[0] or ''


def django_app():
    """A Django project with an empty application "shop", which models of a module shop.models are in."""
    package = types.ModuleType('shop')
    package.__path__ = [tempfile.mkdtemp()]
    sys.modules['shop'] = package
    settings.configure(
        DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'shop', 'HOST': client.HOST,
                               'PORT': client.PORT, 'USER': os.environ.get('PGUSER', '')}},
        DEFAULT_AUTO_FIELD='django.db.models.BigAutoField', INSTALLED_APPS=['django.contrib.postgres', 'shop'])
    django.setup()


def django_uses(names):
    """What migrations and queries do with the model."""
    from django.db import connection
    from django.db.migrations.writer import MigrationWriter
    from pgvector.django import CosineDistance
    product, index = names['Product'], names['Product']._meta.indexes[0]
    with connection.schema_editor() as editor:
        editor.create_model(product)
    product.objects.create(id=3, tenant=7, embedding=np.ones(64))
    product.objects.create(id=4, tenant=8, embedding=np.arange(64))
    nearest = product.objects.filter(tenant=8).order_by(CosineDistance('embedding', np.ones(64)))[:1]
    same([p.id for p in nearest], [4], 'Django: a query with a filter')
    same(index.clone(), index, 'Django: the index is equal to its copy')
    text, _ = MigrationWriter.serialize(index)
    ok('GrnndIndex(' in text and "'degree': 24" in text, 'Django: makemigrations writes the index', text)
    ok("degree='24'" in definition('products_embedding'), 'Django: options', definition('products_embedding'))
    connection.close()


def main():
    client.connect(autocommit=True).execute('CREATE DATABASE shop')
    with open(PAGE, encoding='utf-8') as page:
        parts = re.split(r'^## (.+)$', page.read(), flags=re.M)[1:]
    blocks = {title: re.findall(r'^```python\n(.*?)^```$', text, re.S | re.M) for title, text in zip(parts[::2], parts[1::2])}
    blocks = {title: found for title, found in blocks.items() if found}
    same({title: len(found) for title, found in blocks.items()}, dict.fromkeys(INDEXES, 1), 'the blocks of the page')
    found = {}
    for title, (code,) in blocks.items():
        if title == 'Django':
            django_app()
        names = found[title] = {'__name__': 'shop.models' if title == 'Django' else title,
                                'embeddings': DeterministicFakeEmbedding(size=64)}
        exec(compile(code, f'{PAGE}: {title}', 'exec'), names)
        if title == 'Django':
            django_uses(names)
        index, words = INDEXES[title]
        ok(words in definition(index), f'{title}: the index', definition(index))
    ok("layout=compact" in definition('articles_embedding'), 'SQLAlchemy: options', definition('articles_embedding'))
    same(len(found['LangChain']['nearest']), 2, 'LangChain: rows come')
    found['SQLAlchemy']['engine'].dispose()
    found['LlamaIndex']['store']._engine.dispose()


client.run(main)
