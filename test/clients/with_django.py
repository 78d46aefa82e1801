"""Django with pgvector's fields: its HnswIndex under another suffix, migrations, the ORM."""
import os

import client
import django
from client import DIM, K, queries, rows
from django.conf import settings

settings.configure(
    DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'postgres',
                           'HOST': client.HOST, 'PORT': client.PORT, 'USER': os.environ.get('PGUSER', '')}},
    INSTALLED_APPS=['django.contrib.postgres'])
django.setup()

from django.contrib.postgres.operations import CreateExtension  # noqa: E402
from django.db import connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.state import ProjectState  # noqa: E402
from pgvector.django import CosineDistance, HnswIndex, L2Distance, VectorField  # noqa: E402


class GrnndIndex(HnswIndex):
    suffix = 'grnnd'


class Item(models.Model):
    kind = models.IntegerField()
    embedding = VectorField(dimensions=DIM)

    class Meta:
        app_label = 'shop'
        indexes = [GrnndIndex(name='django_l2', fields=['embedding'], m=16, ef_construction=64,
                              opclasses=['vector_l2_ops'])]


class First(migrations.Migration):
    operations = [
        CreateExtension('grnnd'),
        migrations.CreateModel('Item', [
            ('id', models.BigAutoField(primary_key=True)), ('kind', models.IntegerField()),
            ('embedding', VectorField(dimensions=DIM))]),
    ]


class Second(migrations.Migration):
    operations = [
        migrations.AddIndex('item', Item._meta.indexes[0]),
        migrations.AddIndex('item', GrnndIndex(name='django_cosine', fields=['embedding'], opclasses=['vector_cosine_ops'])),
    ]


def apply(migration, state):
    with connection.schema_editor() as editor:
        return migration.apply(state, editor)


def main():
    state = apply(First('0001', 'shop'), ProjectState())
    Item.objects.bulk_create(Item(id=i, kind=client.kinds[i], embedding=row) for i, row in enumerate(rows))
    apply(Second('0002', 'shop'), state)
    with connection.cursor() as cursor:
        cursor.execute('ANALYZE shop_item')
    name, _, arguments = Item._meta.indexes[0].deconstruct()
    client.same(arguments.get('m'), 16, 'an index deconstructs, as makemigrations needs it')

    def search(distance, k, **where):
        return Item.objects.filter(**where).order_by(distance).values_list('id', flat=True)[:k]
    client.recall(lambda q, k: search(L2Distance('embedding', q), k), '<->', 'L2Distance')
    client.recall(lambda q, k: search(CosineDistance('embedding', q), k), '<=>', 'CosineDistance')
    client.recall(lambda q, k: [item.id for item in Item.objects.annotate(distance=L2Distance('embedding', q))
                                .order_by('distance')[:k]], '<->', 'annotated')
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute('SET LOCAL hnsw.ef_search = 100')
        cursor.execute('SET LOCAL hnsw.iterative_scan = strict_order')
        client.recall(lambda q, k: search(L2Distance('embedding', q), k, kind=1), '<->', 'filter', 0.95, K,
                      [kind == 1 for kind in client.kinds])
    client.same(list(Item.objects.alias(distance=L2Distance('embedding', rows[6])).filter(distance__lt=1e-3)
                     .order_by('distance').values_list('id', flat=True)[:K]), [6], 'within a distance')
    Item.objects.filter(id=8).update(embedding=queries[0])
    client.same(list(search(L2Distance('embedding', queries[0]), 1)), [8], 'updated')
    connection.close()
    client.scanned('django_l2', 40, 'scans by L2')
    client.scanned('django_cosine', 20, 'scans by cosine')


client.run(main)
