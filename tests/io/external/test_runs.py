"""Runs from external tables: equal to runs from files, pinned, and undamaged by lost connections."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupipe.backends import choose
from gpupipe.bench.measurement import inputs
from gpupipe.cli import main
from gpupipe.config import load_config
from gpupipe.io.source_reader import read_arrow
from gpupipe.training.checkpoints.keys import inputs_key
from gpupipe.training.preparation.input_copies import find_inputs
from tests.postgresql import PASSWORD, PostgresqlServer

RUN = {
    "name": "churn",
    "split": {"test_size": 0.25},
    "features": [{"standardize": "@numeric"}, {"encode": "@categorical"}],
    "models": ["logistic_regression"],
    "report": {"plots": False, "enabled": False},
}
TARGET = {"target": "Churn", "positive": "Yes", "drop": ["customerID"], "where": "tenure > 3"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a configuration for an origin and returns its path."""

    def write_config(origin: dict[str, Any], name: str = "config.yaml", **settings: Any) -> str:
        (tmp_path / name).write_text(yaml.safe_dump({**RUN, **settings, "source": {**origin, **TARGET}}))
        return str(tmp_path / name)

    return write_config


def call(*arguments: str) -> int:
    try:
        return main(list(arguments)) or 0
    except SystemExit as ended:
        return int(ended.code or 0)


def test_runs_are_equal_to_those_from_parquet(
    external_churn: dict[str, dict[str, Any]], write: Callable[..., str], tmp_path: Path
) -> None:
    for kind, origin in external_churn.items():
        assert call("run", write(origin, f"{kind}.yaml"), "--output", f"run-{kind}") == 0
    reference = tmp_path / "run-parquet"
    for kind in external_churn.keys() - {"parquet"}:
        found = tmp_path / f"run-{kind}"
        for name in ("metrics.json", "predictions.parquet", "model/features.json"):
            assert (found / name).read_bytes() == (reference / name).read_bytes(), (kind, name)
        stages = json.loads((found / "timeline.json").read_text())["stages"]
        assert stages[0]["name"] == "copy"
        assert all(PASSWORD not in path.read_text("latin-1") for path in found.rglob("*") if path.is_file())
    delta = yaml.safe_load((tmp_path / "run-delta/config.yaml").read_text())["source"]
    iceberg = yaml.safe_load((tmp_path / "run-iceberg/config.yaml").read_text())["source"]
    assert delta["version"] == 0
    assert isinstance(iceberg["snapshot"], int)
    assert call("predict", "run-iceberg/model", "churn.parquet", "--output", "scores.csv") == 0


def test_a_lost_connection_leaves_nothing_and_the_run_can_be_repeated(
    postgresql: PostgresqlServer, write: Callable[..., str], tmp_path: Path, capfd: pytest.CaptureFixture[str],
    external_churn: dict[str, dict[str, Any]],
) -> None:  # fmt: skip
    good = external_churn["postgresql"]
    assert call("run", write(good), "--output", "run") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    ends = "CASE WHEN number = 1000 THEN pg_terminate_backend(pg_backend_pid()) END AS ends"
    query = f"SELECT * FROM (SELECT *, row_number() OVER () AS number FROM churn) AS c, LATERAL (SELECT {ends}) AS e"
    lost = write({**good, "sql": query}, "lost.yaml")
    capfd.readouterr()
    for output in ("run", "other"):
        assert call("run", lost, "--output", output) == 5
        shown = capfd.readouterr().err
        assert "terminating connection" in shown  # a message of PostgreSQL
        assert PASSWORD not in shown
    assert call("check", lost) == call("plan", lost) == 5
    assert not (tmp_path / "other").exists()
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert call("run", write(good), "--output", "run", "--resume") == 0


def test_checkpoints_depend_on_the_result_of_the_query(
    postgresql: PostgresqlServer, write: Callable[..., str], external_churn: dict[str, dict[str, Any]]
) -> None:
    def key() -> str:
        config = load_config(write(external_churn["postgresql"]))
        return inputs_key(config, choose("cpu"), find_inputs(config)).name

    first = key()
    assert key() == first
    postgresql.execute(
        "CREATE ROLE eve LOGIN PASSWORD 'other'", "GRANT SELECT ON churn TO eve", "UPDATE churn SET tenure = tenure"
    )
    external_churn["postgresql"]["uri"] = postgresql.uri("eve", "other")
    query = external_churn["postgresql"]["sql"]
    external_churn["postgresql"]["sql"] = query.replace("position", '"customerID"')
    assert key() != first  # another order
    ordered = key()
    external_churn["postgresql"]["uri"] = postgresql.uri()
    assert key() == ordered  # by another user
    postgresql.execute("""UPDATE churn SET tenure = tenure + 1 WHERE "customerID" = '0000-AAAAH'""")
    assert key() != ordered


def test_check_and_plan_read_external_tables_and_init_refuses_them(
    external_churn: dict[str, dict[str, Any]], write: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    for kind in ("postgresql", "delta", "iceberg"):
        config = write(external_churn[kind], f"{kind}.yaml")
        assert call("check", config) == 0
        assert call("plan", config) == 0
    assert capfd.readouterr().out.count("1,389 rows") == 6
    assert call("init", "postgresql://ada:Tr0ub4dor&3@host/db", "--target", "y") == 2
    assert PASSWORD not in capfd.readouterr().err


def test_bench_measures_a_copy(
    external_churn: dict[str, dict[str, Any]], write: Callable[..., str], tmp_path: Path
) -> None:
    config = write(external_churn["delta"])
    (found,) = inputs(load_config(config), None, (), tmp_path)
    read = load_config(config, found.overrides).source
    assert read.paths == (str(found.path),)
    assert len(read_arrow(read).table) == 1389
