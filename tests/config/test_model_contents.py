"""Secrets in settings that the model would contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from gpupipe.config import load_config
from gpupipe.config.model_contents import CHECKED_FIELDS, CHECKED_PARAMS
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.io.event_settings import GroupBy
from gpupipe.models import MODELS
from gpupipe.rules import ColumnRules

FREE = {"as", "expressions", "levels", "patterns", "prefix", "units", "value", "zone"}  # of ops


def holds_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return annotation in (str, Any) or any(map(holds_text, get_args(annotation)))


def text_fields(model: Any) -> set[str]:
    return {f.alias or name for name, f in model.model_fields.items() if holds_text(f.annotation)}


def test_every_text_of_an_op_or_a_rule_is_checked_or_refused() -> None:
    """Each new field must either be validated (as a column, a date, ...) or refuse secrets."""
    fields = {field for _, op in OPS.items() for field in text_fields(op)}
    assert fields - CHECKED_FIELDS == FREE
    assert fields >= CHECKED_FIELDS
    assert text_fields(ColumnRules) == {"dtype", "range", "set", "regex"}
    assert text_fields(GroupBy) == {"keys", "columns"}
    params = {field for _, model in MODELS.items() for field in text_fields(model)}
    by_key = {"class_weight", "monotone_constraints", "monotonic_cst"}  # ${NAME} in a key is plain text
    assert params - CHECKED_PARAMS - by_key == {"params"}  # of an estimator
    assert params >= CHECKED_PARAMS - {"time_limit"}  # a number, or text with a unit


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("estimator: {use: sklearn.tree.DecisionTreeClassifier, params: {note: '${Z}'}}", "estimator.params.note"),
        ("estimator: {use: sklearn.tree.DecisionTreeClassifier, params: {of: [{a: 'x ${Z}'}]}}", "params.of[0].a"),
        (
            "{estimator: {use: sklearn.tree.DecisionTreeClassifier}, tune: {space: {note: {choices: [a, '${Z}']}}}}",
            "tune.space.note.choices[1]",
        ),
    ],
)
def test_a_parameter_of_an_estimator_is_refused_unless_it_may_be_shown(entry: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"source: {{generate: churn, target: Churn}}\nmodels:\n  - {entry}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml", environment={"Z": "dotterel"})
    assert f"{path}: the model would contain the value of ${{Z}}; write ${{Z!}} to allow it" in caught.value.problems[0]
    load_config(tmp_path / "c.yaml", environment={"Z": "gini"})  # a word of gpupipe
    (tmp_path / "c.yaml").write_text((tmp_path / "c.yaml").read_text().replace("${Z}", "${Z!}"))
    load_config(tmp_path / "c.yaml", environment={"Z": "dotterel"})


def test_a_new_name_of_a_column_is_refused_and_that_of_a_column_of_the_table_is_not(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "source: {entities: {table: o, as_of: 2024-05-01, label: {none: o, within: 9d}}, target: '${Z}'}\n"
        "tables:\n"
        "  o: {path: o.csv, on: {left: '${Z}', right: '${Z}'}, cardinality: one_to_many, time: '${Z}',\n"
        "    csv: {names: [a, '${Z}']}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml", environment={"Z": "dotterel"})
    at = [problem.split(": ")[1] for problem in caught.value.problems]
    assert at == ["source.target", "tables.o.on.left", "tables.o.csv.names[1]"]
    (tmp_path / "c.yaml").write_text("source: {path: t.csv, target: '${Z}', id: '${Z}x'}\n")
    assert load_config(tmp_path / "c.yaml", environment={"Z": "dotterel"}).source.target == "dotterel"
