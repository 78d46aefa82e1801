"""The command: vectordbbench grnnd --user-name ... --case-type ..."""

import os
from typing import Annotated, Unpack

import click
from pydantic import SecretStr

from vectordb_bench.backend.clients import DB

from ....cli.cli import CommonTypedDict, cli, click_parameter_decorators_from_typed_dict, get_custom_case_config, run

CASE_OPTIONS = ("degree", "layout", "build_device", "maintenance_work_mem", "ef_search", "target_recall", "index_id")


class GrnndTypedDict(CommonTypedDict):
    user_name: Annotated[str, click.option("--user-name", type=str, default="postgres", show_default=True)]
    password: Annotated[
        str,
        click.option(
            "--password",
            type=str,
            default=lambda: os.environ.get("POSTGRES_PASSWORD", ""),
            show_default="$POSTGRES_PASSWORD",
        ),
    ]
    host: Annotated[str, click.option("--host", type=str, default="localhost", show_default=True)]
    port: Annotated[int, click.option("--port", type=int, default=5432, show_default=True)]
    db_name: Annotated[str, click.option("--db-name", type=str, required=True, help="Database")]
    degree: Annotated[int | None, click.option("--degree", type=int, help="Neighbors of a row")]
    layout: Annotated[
        str | None, click.option("--layout", type=click.Choice(["default", "exact", "compact"]), help="How rows are kept")
    ]
    build_device: Annotated[
        str | None, click.option("--build-device", type=click.Choice(["auto", "cpu", "gpu"]), help="What builds the graph")
    ]
    maintenance_work_mem: Annotated[str | None, click.option("--maintenance-work-mem", type=str, help="As '8GB'")]
    ef_search: Annotated[int | None, click.option("--ef-search", type=int, help="Width of searches")]
    target_recall: Annotated[
        float | None, click.option("--target-recall", type=float, help="Recall that the width is chosen for")
    ]
    index_id: Annotated[
        bool, click.option("--index-id/--skip-index-id", default=False, help="The id is a filter column of the index")
    ]


@cli.command()
@click_parameter_decorators_from_typed_dict(GrnndTypedDict)
def Grnnd(**parameters: Unpack[GrnndTypedDict]):
    from .config import GrnndConfig, GrnndIndexConfig

    parameters["custom_case"] = get_custom_case_config(parameters)
    run(
        db=DB.Grnnd,
        db_config=GrnndConfig(
            db_label=parameters["db_label"],
            user_name=SecretStr(parameters["user_name"]),
            password=SecretStr(parameters["password"]),
            host=parameters["host"],
            port=parameters["port"],
            db_name=parameters["db_name"],
        ),
        db_case_config=GrnndIndexConfig(**{name: parameters[name] for name in CASE_OPTIONS}),
        **parameters,
    )
