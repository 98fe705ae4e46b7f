"""Detection of file formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from gpupipe.config import load_config
from gpupipe.errors import DataError
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.settings import TableSource
from gpupipe.starter.source_table import read_source_table
from gpupipe.starter.starter import make_starter
from tests.starter.conftest import DEVICE

Init = Callable[..., Any]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_written_down(frame: pd.DataFrame, tmp_path: Path, init: Init, delimiter: str) -> None:
    frame.to_csv(tmp_path / "table.txt", sep=delimiter, index=False)
    made = init(tmp_path / "table.txt")
    assert made.source["csv"] == {"delimiter": delimiter}
    assert made.source["format"] == "csv"


@pytest.mark.parametrize("separator", ["   ", "  \t"])
def test_runs_of_blanks_are_written_down(frame: pd.DataFrame, tmp_path: Path, init: Init, separator: str) -> None:
    lines = frame.assign(city='"Bad ' + frame["city"] + '"').astype(str).agg(separator.join, axis=1)
    (tmp_path / "table.txt").write_text("".join(f" {line}\n" for line in lines))
    made = init(tmp_path / "table.txt", "c4")
    assert made.source["csv"] == {"delimiter": r"\s+", "names": ["c1", "c2", "c3", "c4"]}
    assert made.comment_on("delimiter:") == "runs of blanks"
    table = read_source_table(str(tmp_path / "table.txt")).table
    assert table.column("c3").to_pylist() == ("Bad " + frame["city"]).tolist()


def test_decimal_commas_become_numbers(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.to_csv(tmp_path / "table.csv", sep=";", decimal=",", index=False)
    made = init(tmp_path / "table.csv")
    assert made.source["csv"] == {"delimiter": ";", "decimal": ","}
    assert "x" in made.comment_on("decimal:")


def test_a_file_without_a_header_gets_names_for_its_columns(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.to_csv(tmp_path / "table.csv", index=False, header=False)
    for target in ("c4", "4", "-1", "last"):
        made = init(tmp_path / "table.csv", target)
        assert made.source["csv"] == {"names": ["c1", "c2", "c3", "c4"]}
        assert made.source["target"] == "c4"
    assert "the file has no header" in made.text


def test_rows_of_equal_digits_without_a_header_are_read(tmp_path: Path) -> None:
    (tmp_path / "digits.csv").write_text("0,0,1\n1,0,2\n0,2,1\n")
    table = read_source_table(str(tmp_path / "digits.csv")).table
    assert table.to_pylist()[0] == {"c1": 0, "c2": 0, "c3": 1}


def test_marks_for_missing_values_are_written_down(frame: pd.DataFrame, init: Init) -> None:
    marked = frame.assign(
        x=frame["x"].astype(str).where(frame.index % 5 > 0, "-"), city=frame["city"].replace("Ulm", "?")
    )
    made = init(marked)
    assert made.source["csv"] == {"null_values": ["-", "?"]}
    n_marks = (marked["x"] == "-").sum() + (marked["city"] == "?").sum()
    assert f"marks {n_marks} missing values in x, city" in made.text


def test_a_word_is_not_a_null_mark(frame: pd.DataFrame, init: Init) -> None:
    coded = frame.assign(code=[["17", "18", "A", "POST"][i % 4] for i in range(len(frame))])
    assert "csv" not in init(coded).source


def test_text_that_is_not_utf8_gets_an_encoding(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.replace("Ulm", "Köln").to_csv(tmp_path / "table.csv", index=False, encoding="latin-1")
    made = init(tmp_path / "table.csv")
    assert made.source["csv"] == {"encoding": "cp1252"}
    table = read_source_table(str(tmp_path / "table.csv")).table
    assert "Köln" in table.column("city").to_pylist()


def test_utf16_is_recognised(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.to_csv(tmp_path / "table.csv", index=False, encoding="utf-16")
    assert init(tmp_path / "table.csv").source["csv"] == {"encoding": "utf-16"}


def test_rows_with_too_many_fields_are_skipped_and_counted(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    lines = frame.to_csv(index=False).splitlines()
    lines[40] += ",one too many"
    (tmp_path / "table.csv").write_text("\n".join(lines))
    made = init(tmp_path / "table.csv")
    assert made.source["csv"] == {"bad_rows": "skip"}
    assert made.comment_on("bad_rows:") == "skips 1 row with another number of fields"


def test_the_format_of_a_file_is_detected_from_its_contents(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    frame.to_parquet(tmp_path / "parquet.data")
    frame.to_json(tmp_path / "jsonl.data", orient="records", lines=True)
    for name in ("parquet", "jsonl"):
        assert init(tmp_path / f"{name}.data").source["format"] == name


def test_given_options_are_not_inferred_and_are_written(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "table.data"
    frame.replace("Ulm", "Köln").to_csv(path, index=False, sep=";", encoding="cp1252")
    stated: dict[str, Any] = {
        "format": "csv",
        "csv": {"encoding": "latin-1", "names": ["a", "b", "c", "d"]},
        "isolate": True,
    }
    base = TableSource.model_validate({"path": str(path), **stated})
    config = tmp_path / "starter.yaml"
    config.write_text(make_starter(str(path), "d", config, DEVICE, base).text, encoding="utf-8")
    source = yaml.safe_load(config.read_text())["source"]
    assert source["csv"] == {**stated["csv"], "delimiter": ";"}
    assert (source["format"], source["isolate"]) == ("csv", True)
    assert load_config(config).source is not None
    with pytest.raises(DataError, match="not ascii"):
        read_source_table(str(path), base.model_copy(update={"csv": CsvSettings(encoding="ascii")}))


def test_an_absent_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_source_table(str(tmp_path / "none.csv"))
