"""last_events against plain Python: sorted rows of a key before the cut-off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.features.history.derivation import derive
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.last_events import LastEvents
from gpupipe.table.encode import encode
from gpupipe.table.frames import frame_to_arrow
from gpupipe.table.schema import declare
from tests.examples import examples

START, DAY = pd.Timestamp("2024-01-01"), pd.Timedelta(days=1)
CUT = "2024-01-06"


def rows(seed: int, n: int, n_keys: int = 3) -> pd.DataFrame:
    """Return events in no order of time, some at the same day, with nulls in all columns."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, n_keys, n).astype(float)
    return pd.DataFrame(
        {
            "key": np.where(rng.random(n) < 0.1, np.nan, key),
            "at": [None if rng.random() < 0.1 else START + DAY * int(day) for day in rng.integers(0, 10, n)],
            "what": rng.choice(np.array(["a", "b", "ü", None], object), n),
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 2**40, n).astype(float)),
            "flag": rng.choice(np.array([True, False, None], object), n),
        }
    ).astype({"at": "datetime64[us]"})


def expected(frame: pd.DataFrame, column: str, size: int, sees: Any) -> list[list[Any]]:
    """Return, for each row, the last values of the rows with its key that it `sees`, spelt out."""
    given = frame.to_dict("records")
    known = [(row["at"], i, row) for i, row in enumerate(given) if row["key"] == row["key"] and not pd.isna(row["at"])]
    found = []
    for i, row in enumerate(given):
        seen = [(at, j, other[column]) for at, j, other in known if other["key"] == row["key"] and sees(row, i, at, j)]
        values = [value for _, _, value in sorted(seen, key=lambda each: each[:2])][-size:]
        found.append([None if pd.isna(v) else float(v) if isinstance(v, bool) else v for v in values])
    return found


def lists(frame: pd.DataFrame, **settings: Any) -> dict[str, list[Any]]:
    arrow, backend = frame_to_arrow(frame), choose("cpu")
    kinds = {"what": "categorical", "flag": "boolean", "at": "datetime", "size": "float", "key": "float"}
    table = encode(arrow, backend, {name: declare(kind) for name, kind in kinds.items()})
    op = LastEvents.model_validate({"key": "key", "time": "at", "columns": ["what", "size", "flag"], **settings})
    main = HistoryRows.of_arrow(table, arrow, "the table")
    found, _ = derive([op], DerivationSources(main, {}, backend))
    return {name: found.texts[name].to_pylist() for name in op.made_lists()}


def precedes(row: Any, i: int, at: Any, j: int) -> bool:
    return not pd.isna(row["at"]) and (at, j) < (row["at"], i)


WAYS: dict[str, tuple[dict[str, Any], Any]] = {
    "earlier rows": ({}, precedes),
    "with itself": ({"current": True}, lambda row, i, at, j: i == j or precedes(row, i, at, j)),
    "a cut-off": ({"as_of": CUT}, lambda row, i, at, j: at < pd.Timestamp(CUT)),
    "a gap": ({"gap": "2d"}, lambda row, i, at, j: not pd.isna(row["at"]) and at <= row["at"] - 2 * DAY),
}


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 25), st.sampled_from([1, 3, 20]), st.sampled_from(sorted(WAYS)))
def test_lists_match_sorted_rows(seed: int, n: int, size: int, way: str) -> None:
    settings, sees = WAYS[way]
    frame = rows(seed, n)
    for name, found in lists(frame, size=size, **settings).items():
        assert found == expected(frame, name.partition("_")[0], size, sees), name


OPS: list[Any] = [
    {"last_events": {"table": "orders", "as_of": CUT, "columns": ["what", "size", "flag"], "size": 3}},
    {"list_stats": ["orders_what_last_3", "orders_size_last_3", "orders_flag_last_3"]},
    {"multi_hot": {"columns": "orders_what_last_3", "prefix": "has "}},
    {"list_hash": {"columns": "orders_what_last_3", "buckets": 4}},
    {"list_columns": {"columns": "orders_size_last_3", "size": 2, "last": True}},
    {"bag_ids": "orders_what_last_3"},
]


def document(folder: Path, **more: Any) -> dict[str, Any]:
    source = {"path": str(folder / "main.parquet"), "target": "y"}
    orders = {"path": str(folder / "orders.parquet"), "on": "id", "time": "at", "cardinality": "one_to_many"}
    orders["schema"] = {"what": "categorical", "flag": "boolean"}  # type: ignore[assignment]
    return {"source": source, "tables": {"orders": orders}, "features": OPS, "models": ["logistic_regression"], **more}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, gp.Pipeline, Path]:
    folder = tmp_path_factory.mktemp("orders")
    orders = rows(7, 400, 60).rename(columns={"key": "id"})
    main = pd.DataFrame({"id": np.arange(60.0), "x": np.arange(60) % 7, "y": np.arange(60) % 2})
    main.to_parquet(folder / "main.parquet")
    orders.to_parquet(folder / "orders.parquet")
    pipe = gp.Pipeline.from_dict(document(folder, evaluate={"max_latency": "10s"}))
    return main, orders, pipe, Path(pipe.run(folder / "run", quiet=True).path)


def test_every_road_gives_the_same_features(trained: Any) -> None:
    main, orders, _, path = trained
    model, scorer = gp.load_model(path, "cpu"), gp.load_scorer(path)
    whole = np.asarray(model.transform(main, tables={"orders": orders}))
    first = model.features.names.index("orders_size_last_3_length")
    assert (whole[:, first] != whole[0, first]).any()
    for i in range(0, 60, 12):
        alone = model.transform(main.iloc[[i]], tables={"orders": orders[orders["id"] == i]})
        np.testing.assert_array_equal(np.asarray(alone)[0], whole[i])
    given = scorer.with_history(main.to_dict("records"), tables={"orders": orders})
    np.testing.assert_array_equal(scorer.features(given), whole)
    assert given[int(np.argmax(whole[:, first]))]["orders_size_last_3"]
    assert set(scorer.history_inputs["orders_what_last_3"]) == {"orders.what", "orders.at"}
    assert model.features.lineage["has orders_what_last_3=a"] == ["orders.what", "orders.at"]

    new = orders.assign(what="not in training")
    unseen = np.asarray(model.transform(main, tables={"orders": new}))
    rows_of_new = scorer.with_history(main.to_dict("records"), tables={"orders": new})
    np.testing.assert_array_equal(scorer.features(rows_of_new), unseen)
    length = model.features.names.index("orders_what_last_3_length")
    np.testing.assert_array_equal(unseen[:, length], whole[:, length])


def test_an_unseen_event_is_not_a_null() -> None:
    history = {"last_events": {"key": "key", "time": "at", "columns": "what", "size": 3}}
    what: Any = ["a", None, "b"]
    frame = pd.DataFrame({"key": 1.0, "at": [START + DAY * i for i in range(3)], "what": what})
    program = gp.FeatureProgram([history, {"bag_ids": "what_last_3"}, {"categorify": "what"}, {"drop": "at"}]).fit(
        frame
    )
    for first, ids in ("a", [3, 3, 0]), ("new", [1, 1, 0]):
        what[0] = first
        found = program.bags(frame.assign(what=what))["what_last_3"]
        assert found.ids.tolist() == ids and found.offsets.tolist() == [0, 0, 1, 3]


def test_events_from_the_cut_off_on_change_nothing(trained: Any) -> None:
    main, orders, pipe, path = trained
    later = orders.copy()
    later.loc[~(later["at"] < CUT), ["what", "size", "flag"]] = ["ü", 5.0, True]
    assert not later.equals(orders)
    model = gp.load_model(path, "cpu")
    one, other = (np.asarray(model.transform(main, tables={"orders": each})) for each in (orders, later))
    np.testing.assert_array_equal(one, other)
    one, other = (pipe.tensors(tables={"orders": each})[0].bags["orders_what_last_3"] for each in (orders, later))
    np.testing.assert_array_equal(one.ids, other.ids)


def test_an_order_of_ops_that_needs_a_list_before_it_is_made_is_an_error(trained: Any) -> None:
    pipe = gp.Pipeline.from_dict(document(trained[3].parent, features=[OPS[1], OPS[0]]))
    with pytest.raises(gp.ConfigError, match="orders_what_last_3"):
        pipe.features()
