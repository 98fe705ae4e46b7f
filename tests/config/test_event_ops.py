"""Event tables in a configuration: defaults of ops from their table and the rows' cut-off, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.config import Config, parse_config
from gpupipe.config.resolved_yaml import resolved_yaml
from gpupipe.errors import ConfigError
from gpupipe.features.ops.keyed_op import KeyedOp

ORDERS = {"path": "orders.csv", "on": "customer", "time": "at", "cardinality": "one_to_many"}
ENTITIES = {"table": "orders", "as_of": "2024-03-01", "label": {"none": "orders", "within": "30d"}}


def configured(op: dict[str, Any], entities: Any = ENTITIES, **tables: Any) -> Config:
    source = {"path": "rows.csv"} if entities is None else {"entities": entities, "target": "churned"}
    return parse_config({"source": source, "tables": {"orders": ORDERS, **tables}, "features": [op]})


def keyed(config: Config) -> KeyedOp:
    (op,) = config.features
    assert isinstance(op, KeyedOp)
    return op


def test_an_op_takes_the_time_of_its_table_and_the_cut_off_of_the_rows() -> None:
    op = keyed(configured({"rolling": {"table": "orders", "windows": "7d"}}))
    assert (op.time, op.as_of) == ("at", "as_of")
    named = keyed(configured({"rolling": {"table": "orders", "windows": "7d", "time": "paid"}}))
    assert named.time == "paid"


def test_the_same_cut_off_may_be_repeated_and_the_resolved_configuration_is_read_again() -> None:
    config = configured({"rfm": {"table": "orders", "as_of": "2024-03-01T00:00"}})
    assert keyed(config).as_of == "as_of"
    import yaml

    assert parse_config(yaml.safe_load(resolved_yaml(config))) == config


@pytest.mark.parametrize(
    ("op", "entities", "tables", "message"),
    [
        ({"rolling": {"table": "orders", "windows": "7d"}}, None, {}, r"features\[0\].rolling.* expected as_of"),
        (
            {"decay": {"table": "orders", "half_life": "7d"}},
            None,
            {"orders": ORDERS | {"time": None}},
            "decay needs the time of events",
        ),
        (
            {"rfm": {"table": "orders", "as_of": "2024-03-31"}},
            ENTITIES,
            {},
            r"the cut-off source.entities.as_of \(2024-03-01\); remove as_of here",
        ),
        (
            {"aggregate": {"table": "visits"}},
            ENTITIES,
            {"visits": ORDERS | {"time": None}},
            "table 'visits' has no `time`, which excludes events from the cut-off on",
        ),
        ({"drop": "x"}, ENTITIES | {"table": "order"}, {}, r"source.entities.table: .*did you mean 'orders'"),
        ({"drop": "x"}, ENTITIES, {"orders": ORDERS | {"time": None}}, "table 'orders' has no `time`"),
        (
            {"drop": "x"},
            ENTITIES | {"label": {"sum": "orders", "within": "30d"}},
            {},
            "sum needs a column; write orders.COLUMN",
        ),
        (
            {"drop": "x"},
            ENTITIES | {"label": {"any": "visits", "within": "30d"}},
            {"visits": ORDERS | {"on": "visitor"}},
            "expected table 'visits' on customer, the keys of the rows; got visitor",
        ),
        ({"drop": "x"}, ENTITIES | {"label": {"within": "30d"}}, {}, "give one of none, any, count"),
        ({"drop": "x"}, ENTITIES | {"as_of": ["2024-03-01", "2024-03-01T00:00"]}, {}, "listed twice"),
        ({"drop": "x"}, ENTITIES | {"as_of": "soon"}, {}, "expected an ISO date or time .*, got 'soon'"),
    ],
)
def test_leaking_or_impossible_ops_are_refused(
    op: dict[str, Any], entities: Any, tables: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(op, entities, **tables)


def test_a_source_of_events_reads_no_separate_file() -> None:
    with pytest.raises(ConfigError, match="path: the rows are built from table 'orders'"):
        parse_config({"source": {"entities": ENTITIES, "target": "y", "path": "x.csv"}, "tables": {"orders": ORDERS}})
    with pytest.raises(ConfigError, match="name the column that holds the label"):
        parse_config({"source": {"entities": ENTITIES}, "tables": {"orders": ORDERS}})


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"compute": {"x": "a ** 2"}}, r"expected columns, numbers and \+ - \* /; found a \*\* 2"),
        ({"compute": {"x": "1 + 2"}}, "uses no column"),
        ({"group_by": {"keys": "a", "columns": {"*": "sum"}}}, "supports only count"),
        ({"group_by": {"keys": "a", "columns": {"a": "max"}}}, "two result columns have the same name: a"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured({"drop": "x"}, orders=ORDERS | steps)
