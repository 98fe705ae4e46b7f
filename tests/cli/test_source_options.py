"""``--source KEY=VALUE``."""

from __future__ import annotations

import pytest

from gpupipe.cli.source_options import parse_source_options
from gpupipe.errors import ConfigError
from gpupipe.io.settings import TableSource

BASE = TableSource.model_validate({"path": "x.csv", "csv": {"encoding": "latin-1"}, "schema": {"a": "float"}})


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("csv.delimiter=;", "delimiter", ";"),
        ("csv.delimiter=,", "delimiter", ","),
        ("csv.delimiter=|", "delimiter", "|"),
        ("csv.delimiter= ", "delimiter", " "),
        ("csv.delimiter=\\t", "delimiter", "\t"),
        ("csv.delimiter=tab", "delimiter", "\t"),
        ("csv.quote=null", "quote", None),
        ("csv.quote='", "quote", "'"),
        ("csv.names=[a, b]", "names", ("a", "b")),
        ("csv.null_values=[x, '-']", "null_values", ("x", "-")),
    ],
)
def test_an_option_changes_its_setting_and_no_other(option: str, name: str, value: object) -> None:
    changed = parse_source_options([option], BASE)
    assert getattr(changed.csv, name) == value
    assert changed.csv.model_copy(update={name: getattr(BASE.csv, name)}) == BASE.csv
    assert changed.model_copy(update={"csv": BASE.csv}) == BASE


def test_options_add_up_and_the_last_one_wins() -> None:
    changed = parse_source_options(["format=csv", "csv.decimal=.", "isolate=true", "csv.decimal=,"], BASE)
    assert (changed.format, changed.csv.decimal, changed.isolate, changed.csv.encoding) == ("csv", ",", True, "latin-1")


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["delimiter=;"], ["unknown option; did you mean 'csv.delimiter'?"]),
        (["path=y.csv"], ["unknown option; the options are format, csv.delimiter"]),
        (["csv.delimiter"], ["expected KEY=VALUE"]),
        (["csv.names=[x"], ["--source csv.names=[x: not valid YAML"]),
        (["csv.encoding=hex"], ["unknown encoding 'hex'"]),
        (["format=cvs", "isolate=maybe"], ["did you mean 'csv'?", "isolate: expected true or false, got 'maybe'"]),
        (["csv.delimiter=,", "csv.thousands=,"], ["is already the decimal separator"]),
    ],
)
def test_every_wrong_option_is_reported(options: list[str], messages: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_source_options(options, BASE)
    for message in messages:
        assert message in str(error.value)
