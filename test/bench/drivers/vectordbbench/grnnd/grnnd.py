"""Client for grnnd, an index for pgvector's types in PostgreSQL."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql

from vectordb_bench.backend.filter import Filter, FilterOp

from ..api import VectorDB
from .config import GrnndIndexConfig

log = logging.getLogger(__name__)

INDEX = sql.Identifier("vdbbench_grnnd_index")


class Grnnd(VectorDB):
    """One table (id bigint, embedding vector, and label text where cases ask for labels) and one index,
    made when all rows are there.  Columns that filters ask about are columns of the index: the label
    always, the id by case config's index_id.
    """

    name = "Grnnd"
    thread_safe: bool = False
    supported_filter_types: list[FilterOp] = [FilterOp.NonFilter, FilterOp.NumGE, FilterOp.StrEqual]

    def __init__(
        self,
        dim: int,
        db_config: dict,
        db_case_config: GrnndIndexConfig,
        collection_name: str = "vdbbench_grnnd",
        drop_old: bool = False,
        with_scalar_labels: bool = False,
        **kwargs: Any,
    ):
        self.dim = dim
        self.db_config = db_config
        self.case_config = db_case_config
        self.with_scalar_labels = with_scalar_labels
        self.table = sql.Identifier(collection_name or "vdbbench_grnnd")
        self.conn: psycopg.Connection | None = None

        with self._connect() as conn:
            conn.execute("CREATE EXTENSION IF NOT EXISTS grnnd CASCADE")
            if drop_old:
                label = sql.SQL(", label text" if with_scalar_labels else "")
                conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.table))
                conn.execute(
                    sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY, embedding vector({}){})").format(
                        self.table, sql.Literal(dim), label
                    )
                )
                # wide vectors stay beside their rows, as in the clients of other indexes
                conn.execute(sql.SQL("ALTER TABLE {} ALTER embedding SET STORAGE PLAIN").format(self.table))

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(**self.db_config, autocommit=True)

    @staticmethod
    def _set(conn: psycopg.Connection, settings: dict) -> None:
        for name, value in settings.items():
            conn.execute("SELECT set_config(%s, %s, false)", (name, str(value)))

    @contextmanager
    def init(self) -> Generator[None, None, None]:
        self.conn = self._connect()
        register_vector(self.conn)
        self._set(self.conn, self.case_config.search_param()["settings"])
        try:
            yield
        finally:
            self.conn.close()
            self.conn = None

    def copy_for_thread(self) -> "Grnnd":
        # a connection cannot be copied: init() makes the copy's own
        other = copy(self)
        other.conn = None
        return other

    def insert_embeddings(
        self,
        embeddings: list[list[float]],
        metadata: list[int],
        labels_data: list[str] | None = None,
        **kwargs: Any,
    ) -> tuple[int, Exception | None]:
        types = ["bigint", "vector"]
        columns = [metadata, np.asarray(embeddings, dtype=np.float32)]
        if self.with_scalar_labels:
            types.append("text")
            columns.append(labels_data)
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(self.table)
        try:
            with self.conn.cursor() as cursor, cursor.copy(statement) as stream:
                stream.set_types(types)
                for row in zip(*columns, strict=True):
                    stream.write_row((int(row[0]), *row[1:]))
        except Exception as e:
            log.warning(f"cannot load into {self.table.as_string(self.conn)}: {e}")
            return 0, e
        return len(metadata), None

    def optimize(self, data_size: int | None = None) -> None:
        param = self.case_config.index_param()
        columns = [sql.SQL("embedding {}").format(sql.Identifier(param["opclass"]))]
        if self.case_config.index_id:
            columns.append(sql.SQL("id"))
        if self.with_scalar_labels:
            columns.append(sql.SQL("label"))
        options = [sql.SQL("{} = {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in param["with"].items()]
        self.conn.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(INDEX))
        self._set(self.conn, param["settings"])
        self.conn.execute(
            sql.SQL("CREATE INDEX {} ON {} USING grnnd ({}){}").format(
                INDEX,
                self.table,
                sql.SQL(", ").join(columns),
                sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options)) if options else sql.SQL(""),
            )
        )
        self.conn.execute(sql.SQL("ANALYZE {}").format(self.table))

    def prepare_filter(self, filters: Filter) -> None:
        if filters.type == FilterOp.NumGE:
            where = sql.SQL("WHERE id >= {}").format(sql.Literal(filters.int_value))
        elif filters.type == FilterOp.StrEqual:
            where = sql.SQL("WHERE label = {}").format(sql.Literal(filters.label_value))
        else:
            where = sql.SQL("")
        self.search = sql.SQL("SELECT id FROM {} {} ORDER BY embedding {} %s LIMIT %s").format(
            self.table, where, sql.SQL(self.case_config.search_param()["operator"])
        )

    def search_embedding(self, query: list[float], k: int = 100, **kwargs: Any) -> list[int]:
        vector = np.asarray(query, dtype=np.float32)
        rows = self.conn.execute(self.search, (vector, k), prepare=True, binary=True)
        return [row[0] for row in rows]
