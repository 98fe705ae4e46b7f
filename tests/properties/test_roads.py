"""One answer for each row, on every road and in any company, for values of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe import GpupipeError, Pipeline
from tests.examples import examples
from tests.properties.roads import (
    ODD_TEXT_ROADS,
    ROADS,
    Road,
    Served,
    arrow,
    nullable_frame,
    onnx,
    write_csv,
    write_json_lines,
)
from tests.properties.values import KINDS, arrow_table, text_of, training_rows

pytestmark = pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
Array = Any
Row = Mapping[str, Any]

FORMATS = ("parquet", "csv", "jsonl", "frame")
N_TRAINED = 120

# Kinds that an ONNX file takes in another form: numbers are float64, and times are int64 microseconds.
NOT_IN_ONNX = ("unsigned level", "decimal level", "identifier", "time text", "formatted time", "epoch", "day number")


def train(folder: Path, form: str, names: Sequence[str]) -> Served:
    """Return a model of the kinds `names`, trained on rows in one of `FORMATS`."""
    kinds = [KINDS[name] for name in names if not (KINDS[name].typed and form in ("csv", "jsonl"))]
    kinds = [kind for kind in kinds if kind.declared != "text" or form == "jsonl"]  # partitions lack texts
    rows, y = training_rows(kinds, N_TRAINED)
    data: Any = folder / f"trained.{form}"
    table = arrow_table(kinds, rows).append_column("y", [y])
    cells = [{name: KINDS[name].plain(value) for name, value in row.items()} | {"y": each}
             for row, each in zip(rows, y, strict=True)]  # fmt: skip
    if form == "parquet":
        pq.write_table(table, data)
    elif form == "csv":
        write_csv(data, cells)
    elif form == "jsonl":
        write_json_lines(data, cells)
    run = Pipeline(
        nullable_frame(table) if form == "frame" else str(data), target="y", models=["ridge"],
        schema={kind.name: kind.declared for kind in kinds if kind.declared}, split={"test_size": 0.1},
        report={"enabled": False},
    ).run(folder / "run", quiet=True)  # fmt: skip
    return Served(run.model, folder, [kind.name for kind in kinds])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return models by the format of their training rows; each is trained once."""
    found: list[Served] = []

    @cache
    def served(form: str, names: tuple[str, ...] = tuple(KINDS)) -> Served:
        found.append(train(tmp_path_factory.mktemp(form), form, names))
        return found[-1]

    yield served
    for each in found:
        each.close()


@pytest.mark.parametrize("form", FORMATS)
def test_every_value_has_one_answer_on_every_road(trained: Any, form: str) -> None:
    served = trained(form)
    rows = _all_values(served)
    expected = arrow(served, rows)
    for road in _roads(served):
        require_equal(served, road, rows, expected)


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_has_one_answer_in_any_company(trained: Any, form: str) -> None:
    served = trained(form)

    @examples(3)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        row = st.fixed_dictionaries({name: st.sampled_from(KINDS[name].values) for name in served.kinds})
        rows = data.draw(st.lists(row, min_size=1, max_size=5))
        expected = np.concatenate([arrow(served, [each]) for each in rows])
        for road in _roads(served):
            order = data.draw(st.permutations(range(len(rows))), label=road.__name__)
            cut = data.draw(st.integers(1, len(rows)), label="rows at once")
            for part in (order[:cut], order[cut:]):
                if part:
                    require_equal(served, road, [rows[i] for i in part], expected[list(part)])

    same()


def test_an_onnx_file_gives_the_answers_of_its_model(trained: Any) -> None:
    served = trained("parquet", tuple(name for name in KINDS if name not in NOT_IN_ONNX))
    rows = _all_values(served)
    require_equal(served, onnx, rows, arrow(served, rows), tolerance=1e-5)


# Texts that a column of another kind reads or refuses.
ODD_TEXTS = {
    "microsecond": (
        "03/06/2024", "24/07/2024", "2024-3-4", "0000-01-01", "10000-01-01", "2024-02-30", "２０２４-03-04",
        "2024-03-04T24:00:00", "2024-03-04T05:06:60", "2024-03-04T05:06:07,5", "2024-03-04t05:06:07z",
        "20240304T050607", "2024-W10-1", "2024-064", "2024-03-04T05:06:07.123456789", "2024-03-04T05:06:07+24:00",
        "12:30", "x",
    ),
    "integer": ("x", "1,5", "1_000", "１２", "1e2", " 7 ", "+7", "7.", ".5", "inf", "yes"),
    "boolean": ("x", "TRUE", "yes", " no ", "T", "1", "0", "2", "oui"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in ODD_TEXTS.items() for text in texts])
def test_odd_texts_are_read_or_refused_alike(trained: Any, name: str, text: str) -> None:
    served = trained("parquet")
    cell = served.cells([_only(served, name, None)])[0] | {name: text}
    usual = served.cells([_only(served, name, KINDS[name].trained[0])])[0]
    usual[name] = text_of(usual[name])  # JSON lines of several types in a column are an error of the file
    found: dict[str, list[str]] = {}
    for road in ODD_TEXT_ROADS:
        for company in ([cell], [usual, cell]):
            try:
                answer = repr(float(road(served, company)[-1]))
            except (GpupipeError, AssertionError):
                answer = "refused"
            found.setdefault(answer, []).append(f"{road.__name__}, {'after another row' if company[1:] else 'alone'}")
    assert len(found) == 1, f"column {name!r}, text {text!r}: {found}"


def _all_values(served: Served) -> list[Row]:
    """Return rows with all values of all kinds."""
    n_rows = max(len(KINDS[name].values) for name in served.kinds)
    return [{name: KINDS[name].values[i % len(KINDS[name].values)] for name in served.kinds} for i in range(n_rows)]


def _only(served: Served, name: str, value: Any) -> Row:
    """Return a row without values except one."""
    return {each: value if each == name else None for each in served.kinds}


def _roads(served: Served) -> list[Road]:
    """Return the roads of a model: features of texts need all rows of a Dask DataFrame."""
    return [road for road in ROADS if "note" not in served.kinds or road.__name__ != "dask_frame"]


def require_equal(served: Served, road: Road, rows: Sequence[Row], expected: Array, tolerance: float = 0.0) -> None:
    """Raise AssertionError unless a road has the expected answers; the message has the values that differ."""
    try:
        found = road(served, rows)
    except (GpupipeError, AssertionError, ValueError, TypeError, OverflowError) as error:
        raise AssertionError(f"{road.__name__} refuses {_without_nulls(rows)}: {error}") from error
    assert len(found) == len(rows), road.__name__
    wrong = np.flatnonzero(np.abs(found - expected) > tolerance if tolerance else found != expected)
    shown = []
    for i in wrong[:5]:
        for name, value in rows[i].items():
            row = [_only(served, name, value)]
            if value is not None and abs(road(served, row)[0] - arrow(served, row)[0]) > tolerance:
                shown.append(f"column {name!r}, value {value!r}")
        shown.append(f"row {_without_nulls([rows[i]])}: expected {expected[i]!r}, found {found[i]!r}")
    assert not len(wrong), f"{road.__name__} differs in {len(wrong)} of {len(rows)} rows:\n" + "\n".join(shown)


def _without_nulls(rows: Sequence[Row]) -> str:
    """Return the values of a few rows."""
    return str([{name: value for name, value in row.items() if value is not None} for row in rows[:3]])[:600]
