"""The ``source:`` and ``tables:`` sections."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.settings import JoinedTable, Source


def test_a_source_is_parsed_from_yaml() -> None:
    source = Source.model_validate(
        {
            "path": "adult.data",
            "format": "csv",
            "target": "income",
            "positive": [">50K", ">50K."],
            "drop": "fnlwgt",
            "schema": {"age": "float", "seen": {"kind": "datetime", "format": "%m/%d/%Y"}},
            "csv": {"names": ["age", "seen", "income"], "null_values": ["?"]},
        }
    )
    assert (
        source.paths == ("adult.data",)
        and source.drop == ("fnlwgt",)
        and source.positives == {"income": (">50K", ">50K.")}
    )
    declared = source.declarations()
    assert (declared["age"].kind, declared["seen"].kind, declared["seen"].time_format) == (
        "numeric", "datetime", "%m/%d/%Y",
    )  # fmt: skip
    assert Source.model_validate(source.model_dump(by_alias=True)) == source
    assert Source.model_validate(source.model_dump(mode="json", by_alias=True)) == source


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "one of path"),
        ({"path": "a.csv", "generate": "churn"}, "one of path"),
        ({"path": ""}, "the path is empty"),
        ({"path": []}, "the path is empty"),
        ({"generate": "chrn"}, "unknown generator"),
        ({"generate": "churn", "rows": 0}, "greater than or equal to 1"),
        ({"path": "a.csv", "schema": {"x": "flaot"}}, "did you mean 'float'"),
        ({"path": "a.csv", "where": "x >"}, "where"),
        ({"path": "a.csv", "target": "y", "drop": ["y"]}, "drop: 'y' is the target"),
        ({"path": "a.csv", "target": "y", "id": "y"}, "id: 'y' is the target"),
        ({"path": "a.csv", "id": "*_id"}, "id takes exact column names"),
        ({"path": "a.csv", "id": ["row"]}, "'row' is a reserved column of predictions.parquet"),
        ({"path": "a.csv", "columns": ["@numeric"]}, "list the columns"),
        ({"path": "a.csv", "prepare": "hook"}, "pattern"),
        ({"path": "a.csv", "csv": {"encoding": "utf9"}}, "unknown encoding"),
        ({"path": "a.csv", "csv": {"delimiter": "||"}}, r"expected one character, or \\s\+ for runs"),
        ({"path": "a.csv", "csv": {"names": ["a", "a"]}}, "duplicate column names: a"),
        ({"path": "a.csv", "separator": ","}, "Extra inputs"),
    ],
)
def test_an_error_is_found_without_reading(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Source.model_validate(settings)


def test_keys_of_a_join_may_have_one_name_or_two() -> None:
    same = JoinedTable.model_validate({"path": "a.csv", "on": "id", "cardinality": "many_to_one"})
    assert same.on.left == same.on.right == ("id",)
    several = JoinedTable.model_validate({"path": "a.csv", "on": ["id", "day"], "cardinality": "one_to_one"})
    assert several.on.left == ("id", "day")
    other = JoinedTable.model_validate(
        {"path": "a.csv", "on": {"left": "customer", "right": "id"}, "cardinality": "many_to_one"}
    )
    assert (other.on.left, other.on.right) == (("customer",), ("id",))
    wrong: tuple[object, ...] = ({"left": ["a", "b"], "right": "c"}, {"left": "a"}, [])
    for bad in wrong:
        with pytest.raises(ValidationError):
            JoinedTable.model_validate({"path": "a.csv", "on": bad, "cardinality": "many_to_one"})


def test_the_cardinality_of_a_join_must_be_stated() -> None:
    with pytest.raises(ValidationError, match="cardinality"):
        JoinedTable.model_validate({"path": "a.csv", "on": "id"})


@pytest.mark.parametrize(
    "settings",
    [
        {"path": ["a.csv", "b.csv"], "schema": {"x": "float", "t": {"kind": "datetime", "format": "s"}}, "drop": "id"},
        {"generate": "churn", "positive": "Yes", "columns": ["a*"]},
    ],
)
def test_the_json_schema_accepts_what_is_accepted(settings: dict[str, Any]) -> None:
    Source.model_validate(settings)
    jsonschema.validate(settings, Source.model_json_schema())


def test_the_json_schema_of_a_join_accepts_a_key_or_a_list() -> None:
    schema = JoinedTable.model_json_schema()
    for on in ("id", ["id", "day"], {"left": "a", "right": "b"}):
        jsonschema.validate({"path": "a.csv", "on": on, "cardinality": "many_to_one"}, schema)


def test_no_library_that_reads_is_imported() -> None:
    root = Path(__file__).parents[2]
    code = (
        f"import sys; sys.path[:0] = [{str(root)!r}, {str(root / 'kernels')!r}]; import gpupipe.io.settings; "
        "print(*{'numpy', 'pandas', 'pyarrow', 'fsspec', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_csv_settings_have_the_documented_defaults() -> None:
    assert CsvSettings().model_dump() == {
        "delimiter": None, "names": None, "skip_rows": 0, "comment": None,
        "null_values": (), "encoding": "utf8", "strip": True, "bad_rows": "error",
        "decimal": ".", "thousands": None, "quote": '"',
    }  # fmt: skip
