"""Detection of dates and numbers in text, and of times in numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.starter.source_table import find_leading_zeros
from gpupipe.table.time_formats import time_formats

Init = Callable[..., Any]
QUICK = ["report.enabled=false", "evaluate.importance=false"]


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["1/1/2011", "1/13/2011"], ["%m/%d/%Y"]),
        (["1/1/2011", "13/1/2011"], ["%d/%m/%Y"]),
        (["1/1/2011", "2/3/2011"], ["%m/%d/%Y", "%d/%m/%Y"]),
        (["31.12.2020 23:59"], ["%d.%m.%Y %H:%M"]),
        (["12/10/25 14:05", "10/31/25 07:00"], ["%m/%d/%y %H:%M"]),
        (["03-Feb-2019"], ["%d-%b-%Y"]),
        (["1/13/2011", "13/1/2011"], []),
        (["1/1/2011", "unknown"], []),
        (["Ulm", "Bonn"], []),
        (["1.5", "2.5"], []),
        ([], []),
    ],
)
def test_the_values_decide_how_a_date_is_written(texts: list[str], formats: list[str]) -> None:
    assert time_formats(texts) == formats


def test_text_dates_are_declared_with_their_format(frame: pd.DataFrame, init: Init) -> None:
    days = pd.date_range("2020-01-01", periods=len(frame)).strftime("%d.%m.%Y")
    made = init(frame.assign(day=days))
    assert made.source["schema"] == {"day": {"kind": "datetime", "format": "%d.%m.%Y"}}
    assert "# split: {time: day, test_size: 0.2}" in made.text.splitlines()


def test_an_ambiguous_date_is_commented(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(day=[f"{1 + i % 12}/{1 + i % 7}/2020" for i in range(len(frame))]))
    assert "all values also match %d/%m/%Y" in made.comment_on("day:")


def test_seconds_since_1970_are_times_if_the_name_suggests_it(frame: pd.DataFrame, init: Init) -> None:
    seconds = 1_577_836_800 + 3600 * np.random.default_rng(0).permutation(len(frame))
    made = init(frame.assign(created_at=seconds, amount=seconds))
    assert made.source["schema"] == {"created_at": {"kind": "datetime", "format": "s"}}


@pytest.mark.parametrize(
    ("name", "values", "declared"),
    [
        ("day", range(20240101, 20240129), {"day": {"kind": "datetime", "format": "%Y%m%d"}}),
        ("day", range(20240120, 20240148), {}),  # February has no 48th day
        ("code", range(20240101, 20240129), {}),
        ("year_at", range(1990, 2018), {}),  # a year is a number
    ],
)
def test_dates_in_digits_are_times_if_the_name_suggests_it(
    frame: pd.DataFrame, init: Init, name: str, values: range, declared: dict[str, Any]
) -> None:
    assert init(frame.assign(**{name: np.resize(values, len(frame))})).source.get("schema", {}) == declared


def test_numbers_in_text_are_declared_numbers(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.assign(x=frame["x"].astype(str), code=[f"0{i % 7}" for i in range(len(frame))]).to_parquet(
        tmp_path / "t.parquet"
    )
    made = init(tmp_path / "t.parquet")
    assert made.source["schema"] == {"x": "float"}
    assert made.comment_on("x:") == "numbers written as text"


def test_blanks_among_numbers_are_counted(frame: pd.DataFrame, init: Init) -> None:
    made = init(
        frame.assign(
            x=frame["x"].astype(str).where(frame.index % 60 > 0, "  "), visits=frame["visits"].where(frame.index > 9)
        )
    )
    assert made.source["schema"] == {"x": "float"}
    assert made.comment_on("x:") == "5 blanks become missing"


def test_numbers_in_texts_are_kept_and_parsed(frame: pd.DataFrame, init: Init) -> None:
    generator, n = np.random.default_rng(11), len(frame)
    price = generator.gamma(2, 900, n)
    texts = {
        "price": [f"${v:,.2f}" for v in price],
        "share": [f"{v:.1f}%" for v in generator.uniform(0, 100, n)],
        "balance": [f"({-v:.2f})" if v < 0 else f"{v:.2f}" for v in generator.normal(100, 400, n)],
        "speed": [f"{v:,} rpm" for v in generator.integers(800, 3000, n)],
        "width": [f"{v:.2f}".replace(".", ",") + " cm" for v in generator.uniform(1, 9, n)],
        "mileage": [f"{v:.2f} {'km/kg' if i % 50 == 0 else 'kmpl'}" for i, v in enumerate(generator.normal(20, 4, n))],
        "code": [f"C{i:05d}" for i in range(n)],
    }
    made = init(frame.assign(**texts))
    assert list(made.config.source.drop) == ["code"]
    ops = [op.model_dump(exclude_unset=True) for op in made.config.features if type(op).__name__ == "ParseNumber"]
    assert ops == [
        {"columns": "price", "units": "$"},
        {"columns": "share", "units": "%"},
        {"columns": "balance"},
        {"columns": "speed", "units": "rpm"},
        {"columns": "width", "units": "cm", "decimal": ","},
        {"columns": "mileage", "units": "kmpl"},
    ]
    assert "6 texts become missing, such as" in made.text and "km/kg" in made.text


def test_a_target_written_with_a_unit_is_found_as_a_leak(frame: pd.DataFrame, init: Init) -> None:
    numbers = (frame["x"] * 1000 + 5000).round(2)
    made = init(frame.assign(y=numbers, copy=[f"${v:,.2f}" for v in numbers]))
    assert "copy" in made.config.source.drop


def test_leading_zeros_are_kept_from_the_file_to_the_model(frame: pd.DataFrame, init: Init, tmp_path: Path) -> None:
    """The code ``07`` has an effect that 7 has not, so that a prediction shows which of them was read."""
    generator = np.random.default_rng(8)
    code = generator.choice(["07", "7", "012", "12"], len(frame))
    made = init(frame.assign(code=code, y=np.where(np.char.startswith(code, "0"), 5.0, 1.0) + frame["x"] / 9))
    assert made.source["schema"] == {"code": "categorical"}
    assert "their leading zeros are kept" in made.comment_on("code:")
    run = run_pipeline(load_config(made.path, ["models=[ridge]", *QUICK]), tmp_path / "run")
    rows = pd.DataFrame({"x": 0.0, "visits": 3, "city": "Ulm", "code": ["07", "7"]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.head(1).to_csv(tmp_path / "row.csv", index=False)
    values = [
        run.model.predict(rows),
        run.model.predict(tmp_path / "rows.csv"),
        [run.model.scorer().predict({"x": 0.0, "visits": 3, "city": "Ulm", "code": code}) for code in ("07", "7")],
    ]
    for found in values:
        np.testing.assert_allclose(np.asarray(found, float), [5, 1], atol=0.3)
    assert np.asarray(run.model.predict(tmp_path / "row.csv"), float)[0] == pytest.approx(5, abs=0.3)


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        (["007", "012", None, "240"], "007"),
        (["30", "040", "0231"], "040"),  # of several lengths
        (["0", "10", "7"], ""),
        (["05", *["12", "7", "133"] * 50], ""),  # a slip
        (["-05", "12"], ""),
        (["05.5", "1.0"], ""),
        ([], ""),
    ],
)
def test_codes_have_digits_with_a_leading_zero(cells: list[str | None], example: str) -> None:
    assert find_leading_zeros(pa.chunked_array([pa.array(cells, pa.string())])) == example


def test_free_text_becomes_vectors_and_runs(frame: pd.DataFrame, init: Init, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    words = np.array(["late", "paid", "order", "refund", "box", "blue", "again", "asked", "twice", "never"])
    notes = [" ".join(generator.choice(words, 7)) for _ in range(len(frame))]
    made = init(frame.assign(note=notes, y=[note.count("late") + note.count("paid") / 2 for note in notes]))
    assert made.source["schema"] == {"note": "text"}
    assert made.comment_on("note:") == "free text; 100% of its words recur in other rows"
    assert {"text_vectors": {"columns": ["note"], "n_components": 100, "target": True}} in made.values["features"]
    run = run_pipeline(load_config(made.path, ["models=[ridge]", *QUICK]), tmp_path / "run")
    assert run.metrics["r2"] > 0.5


def test_names_and_categories_with_many_levels_become_vectors_and_identifiers_do_not(
    frame: pd.DataFrame, init: Init
) -> None:
    generator, n = np.random.default_rng(1), len(frame)
    first, last = (np.array([f"{start}{end}" for start in starts for end in ("ley", "ton", "mar", "wood")])
                   for starts in (("Al", "Bri", "Cor", "Ha"), ("Dan", "Es", "Fen", "Gil")))  # fmt: skip
    names = [f"{generator.choice(last)}, {generator.choice(first)} {i}" for i in range(n)]
    cities, plans = (np.array([f"{first[i % 16]}burg {i}" for i in range(k)]) for k in (41, 40))
    made = init(
        frame.assign(
            name=names,
            city=np.resize(cities, n),
            plan=np.resize(plans, n),
            booking=[f"INVOICE-{i:05d}" for i in range(n)],
            code=np.resize([f"Q{i}" for i in range(60)], n),
        )
    )
    assert {"text_vectors": {"columns": ["city", "name"], "target": True}} in made.values["features"]
    assert made.source["schema"] == {"name": "text"}
    assert made.comment_on("name:").startswith("names; ")
    assert "booking" in made.source["drop"]


def test_words_that_do_not_recur_are_dropped(frame: pd.DataFrame, init: Init) -> None:
    generator = np.random.default_rng(1)
    unique = [" ".join("".join(generator.choice(list("abcdefgh"), 9)) for _ in range(6)) for _ in range(len(frame))]
    assert init(frame.assign(note=unique)).comment_on("- note") == "free text"


def test_bands_among_numbers_are_read_as_their_limits(frame: pd.DataFrame, init: Init) -> None:
    level = [f"{v:.1f}" if 0.5 <= v <= 9 else "<0.5" if v < 0.5 else "> 9" for v in np.exp(frame["x"] * 2)]
    made = init(frame.assign(level=level))
    assert "csv" not in made.source
    assert {"parse_number": {"columns": "level", "bands": "limit"}} in made.values["features"]
    assert "a band such as" in made.text and "become missing" not in made.text
    ages = np.random.default_rng(1).choice(["<18", "18-39", "40-64", "65+"], len(frame))
    made = init(frame.assign(age=ages))
    assert "schema" not in made.source and "drop" not in made.source  # bands alone are categories
