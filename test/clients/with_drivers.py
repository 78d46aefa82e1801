"""The drivers for VectorDBBench and ann-benchmarks (test/bench/drivers), with stand-ins for what they
import of these: neither is installed here."""
import enum
import importlib.util
import os
import re
import sys
import types

import client
import numpy as np
import pydantic
from client import DIM, K, ok, rows, same

DRIVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'bench', 'drivers')


def package(name, **content):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(content)
    sys.modules[name] = made


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, os.path.join(DRIVERS, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def ann_benchmarks():
    package('ann_benchmarks')
    package('ann_benchmarks.util', get_bool_env_var=lambda name, default: os.environ.get(name, 'true') == 'true')
    package('ann_benchmarks.algorithms')
    package('ann_benchmarks.algorithms.base')
    package('ann_benchmarks.algorithms.base.module', BaseANN=object)
    package('ann_benchmarks.algorithms.grnnd')
    os.environ.update(ANN_BENCHMARKS_PG_START_SERVICE='false', ANN_BENCHMARKS_PG_HOST=client.HOST,
                      ANN_BENCHMARKS_PG_PORT=client.PORT, ANN_BENCHMARKS_PG_DBNAME='postgres',
                      ANN_BENCHMARKS_PG_USER=client.scalar('SELECT current_user'))
    driver = load('ann_benchmarks.algorithms.grnnd.module', 'ann_benchmarks/grnnd/module.py')
    for metric, op, parameters in (('angular', '<=>', {}), ('euclidean', '<->', {'layout': 'exact', 'degree': 24})):
        algorithm = driver.GRNND(metric, parameters)
        same(algorithm.get_memory_usage(), 0, f'ann-benchmarks, {metric}: nothing before fit()')
        algorithm.fit(rows)
        algorithm.set_query_arguments(80)
        client.recall(algorithm.query, op, f'ann-benchmarks, {metric}', 0.97)
        ok(algorithm.get_memory_usage() > 100, f'ann-benchmarks, {metric}: size')
        algorithm.done()
    same(str(algorithm), 'GRNND(layout=exact, degree=24, ef_search=80)', 'ann-benchmarks: name of a result')
    client.scanned('items_grnnd', 20, 'ann-benchmarks: scans')
    try:
        driver.GRNND('hamming', {})
        ok(False, 'ann-benchmarks: a metric that there is not')
    except ValueError:
        ok(True, 'ann-benchmarks: a metric that there is not')


class Filter(types.SimpleNamespace):
    pass


def vectordbbench():
    operations = enum.Enum('FilterOp', ['NonFilter', 'NumGE', 'StrEqual'])
    metrics = enum.Enum('MetricType', ['L2', 'IP', 'COSINE'])
    clients = 'vectordb_bench.backend.clients'
    for name in ('vectordb_bench', 'vectordb_bench.backend', clients, clients + '.grnnd'):
        package(name)
    package('vectordb_bench.backend.filter', Filter=Filter, FilterOp=operations)
    package(clients + '.api', VectorDB=object, DBCaseConfig=object, DBConfig=pydantic.BaseModel, MetricType=metrics)
    config = load(clients + '.grnnd.config', 'vectordbbench/grnnd/config.py')
    driver = load(clients + '.grnnd.grnnd', 'vectordbbench/grnnd/grnnd.py')

    db_config = config.GrnndConfig(host=client.HOST, port=client.PORT, db_name='postgres',
                                   user_name=client.scalar('SELECT current_user')).to_dict()
    labels = [f'label_{kind}' for kind in client.kinds]
    for metric, op in ((metrics.COSINE, '<=>'), (metrics.L2, '<->')):
        case = config.GrnndIndexConfig(metric_type=metric, degree=24, ef_search=100, target_recall=0, index_id=True)
        db = driver.Grnnd(DIM, db_config, case, drop_old=True, with_scalar_labels=True)
        with db.init():
            for i in range(0, len(rows), 500):
                done, error = db.insert_embeddings(rows[i:i + 500].tolist(), list(range(i, i + 500)), labels[i:i + 500])
                if error or done != 500:
                    ok(False, 'VectorDBBench: load', error)
            db.optimize(len(rows))
            _, error = db.insert_embeddings([[0.0]], [0], ['label_0'])
            ok(error is not None, 'VectorDBBench: a row that does not fit is an error')
        definition = client.definition('vdbbench_grnnd_index')
        ok(re.search(r"USING grnnd \(embedding[ \w]*, id, label\) WITH \(degree='24'\)$", definition), 'VectorDBBench: the index', definition)
        with db.copy_for_thread().init():
            pass
        for filters, allowed in (
                (Filter(type=operations.NonFilter), None),
                (Filter(type=operations.NumGE, int_value=1000), [i >= 1000 for i in range(len(rows))]),
                (Filter(type=operations.StrEqual, label_value='label_3'), [kind == 3 for kind in client.kinds])):
            db.prepare_filter(filters)
            with db.init():
                client.recall(lambda q, k: db.search_embedding(q.tolist(), k), op,
                              f'VectorDBBench: {metric.name}, {filters.type.name}', 0.95, K, allowed)
    client.scanned('vdbbench_grnnd_index', 20, 'VectorDBBench: scans')


def main():
    ann_benchmarks()
    vectordbbench()


client.run(main)
