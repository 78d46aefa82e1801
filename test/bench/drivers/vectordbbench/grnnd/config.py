"""Configurations of the grnnd client: where the server is, and how it builds and searches."""

from pydantic import BaseModel, SecretStr

from ..api import DBCaseConfig, DBConfig, MetricType

OPERATORS = {
    MetricType.L2: ("vector_l2_ops", "<->"),
    MetricType.IP: ("vector_ip_ops", "<#>"),
    MetricType.COSINE: ("vector_cosine_ops", "<=>"),
}


class GrnndConfig(DBConfig):
    user_name: SecretStr = SecretStr("postgres")
    password: SecretStr = SecretStr("")
    host: str = "localhost"
    port: int = 5432
    db_name: str = "vectordb"

    def to_dict(self) -> dict:
        """What psycopg.connect() takes."""
        return {
            "host": self.host,
            "port": self.port,
            "dbname": self.db_name,
            "user": self.user_name.get_secret_value(),
            "password": self.password.get_secret_value(),
        }


class GrnndIndexConfig(BaseModel, DBCaseConfig):
    """What is None is left to grnnd's defaults."""

    metric_type: MetricType | None = None
    degree: int | None = None
    layout: str | None = None
    build_device: str | None = None
    maintenance_work_mem: str | None = None
    ef_search: int | None = None
    target_recall: float | None = None
    index_id: bool = False

    def index_param(self) -> dict:
        """The operator class; parameters of the index; settings of the session that builds it."""
        settings = {
            "grnnd.build_device": self.build_device,
            "maintenance_work_mem": self.maintenance_work_mem,
        }
        return {
            "opclass": OPERATORS[self.metric_type][0],
            "with": {k: v for k, v in (("degree", self.degree), ("layout", self.layout)) if v is not None},
            "settings": {k: v for k, v in settings.items() if v is not None},
        }

    def search_param(self) -> dict:
        """The operator, and settings of sessions that search."""
        settings = {"grnnd.ef_search": self.ef_search, "grnnd.target_recall": self.target_recall}
        return {
            "operator": OPERATORS[self.metric_type][1],
            "settings": {k: v for k, v in settings.items() if v is not None},
        }
