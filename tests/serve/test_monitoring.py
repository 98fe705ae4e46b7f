"""Alert rules and the Grafana dashboard in ``docker/monitoring``, compared with the metrics of a server."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe import Model
from tests.serve.conftest import AppClient

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
OF_PROMETHEUS = {"instance"}
"""Labels that Prometheus adds to each series."""
LABEL = re.compile(r'(\w+)(=~|=)"([^"]*)"')


def expressions() -> Iterator[str]:
    """Yield each PromQL expression of the two files, those of variables too."""
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield from (each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query")


def test_expressions_name_metrics_and_labels_that_the_server_exports(model: Model, rows: list[dict[str, Any]]) -> None:
    with AppClient(model.folder) as client:
        assert client("/predict", rows).status == 200
        assert client("/predict", {"age": -1}).status == 422
        lines = client("/metrics").body.decode().splitlines()
    exported: dict[str, dict[str, set[str]]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, labels, *_ = re.split(r"[{} ]", line, maxsplit=2)
            series = exported.setdefault(name, defaultdict(set))
            for label, _, value in LABEL.findall(labels):
                series[label].add(value)
    used = set()
    for expression in expressions():
        found = re.findall(r"\b(gpupipe_\w+)(?:\{([^}]*)\})?", expression)
        assert found, expression
        for name, labels in found:
            used.add(name)
            assert name in exported, expression
            for label, operator, value in LABEL.findall(labels):
                if label not in OF_PROMETHEUS:
                    assert label in exported[name], expression
                    assert operator == "=~" or value in exported[name][label], expression
        grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", expression) for label in by.split(", ")}
        assert grouped <= OF_PROMETHEUS.union(*(exported[name] for name, _ in found)), expression
    parts = {name for name in exported if name.endswith(("_bucket", "_sum", "_count"))}
    assert exported.keys() - parts <= used, "a metric without a panel or rule"
