"""grnnd, an index for pgvector's types in PostgreSQL.

By default the image's PostgreSQL is started ("service postgresql start") and asked as user "ann" of database
"ann".  Another server is named as for the pgvector module, by ANN_BENCHMARKS_PG_HOST, _PORT, _USER, _PASSWORD and
_DBNAME, with ANN_BENCHMARKS_PG_START_SERVICE=false.
"""
import os
import subprocess
import time

import psycopg
from pgvector.psycopg import register_vector

from ..base.module import BaseANN
from ...util import get_bool_env_var

# operator class and operator of each distance
METRICS = {"angular": ("vector_cosine_ops", "<=>"), "euclidean": ("vector_l2_ops", "<->")}
PREFIX = "ANN_BENCHMARKS_PG_"


def connect():
    options = {"host": None, "port": None, "user": "ann", "password": "ann", "dbname": "ann"}
    named = {name: os.environ.get(PREFIX + name.upper()) or default for name, default in options.items()}
    return psycopg.connect(**{name: value for name, value in named.items() if value}, autocommit=True)


class GRNND(BaseANN):
    def __init__(self, metric, parameters):
        """parameters: of the index, such as degree and layout; {} takes the defaults."""
        if metric not in METRICS:
            raise ValueError(f"grnnd: no metric {metric}")
        self._opclass, operator = METRICS[metric]
        self._parameters = parameters
        self._query = f"SELECT id FROM items ORDER BY embedding {operator} %s LIMIT %s"
        self._ef_search = None
        self._conn = None

    def fit(self, X):
        if get_bool_env_var(PREFIX + "START_SERVICE", True):
            subprocess.run(["service", "postgresql", "start"], check=True)
        self._conn = connect()
        self._conn.execute("CREATE EXTENSION IF NOT EXISTS grnnd CASCADE")
        register_vector(self._conn)
        self._conn.execute("DROP TABLE IF EXISTS items")
        self._conn.execute(f"CREATE TABLE items (id int, embedding vector({X.shape[1]}))")
        self._conn.execute("ALTER TABLE items ALTER embedding SET STORAGE PLAIN")
        with self._conn.cursor() as cursor, cursor.copy("COPY items FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "vector"])
            for i, row in enumerate(X):
                copy.write_row((i, row))
        options = ", ".join(f"{name} = '{value}'" for name, value in self._parameters.items())
        start = time.time()
        self._conn.execute(f"CREATE INDEX items_grnnd ON items USING grnnd (embedding {self._opclass})"
                           + (f" WITH ({options})" if options else ""))
        print(f"CREATE INDEX took {time.time() - start:.2f} s")
        self._conn.execute("ANALYZE items")

    def set_query_arguments(self, ef_search):
        self._ef_search = ef_search
        self._conn.execute(f"SET grnnd.ef_search = {ef_search:d}")

    def query(self, v, n):
        return [row[0] for row in self._conn.execute(self._query, (v, n), prepare=True, binary=True)]

    def get_memory_usage(self):
        """The index in kB; 0 before it is there."""
        if self._conn is None:
            return 0
        return self._conn.execute("SELECT pg_relation_size('items_grnnd')").fetchone()[0] / 1024

    def done(self):
        if self._conn is not None:
            self._conn.close()

    def __str__(self):
        options = "".join(f"{name}={value}, " for name, value in self._parameters.items())
        return f"GRNND({options}ef_search={self._ef_search})"
