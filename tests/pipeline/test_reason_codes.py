"""Tests of ``evaluate.reason_codes``: in models, the scorer, files, and the check of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.config import parse_config
from gpupipe.model_parts.reason_codes import ModelReasons
from gpupipe.pipeline.run import run_pipeline
from tests.examples import examples

CODES = {
    "income": {"code": "01", "text": "Income too low"},
    "debt": {"code": "02", "text": "Too much debt"},
    "years": {"code": "03", "text": "Employed for a short time"},
}
REASONS: dict[str, Any] = {"columns": CODES, "exclude": ["age"], "top": 2}
NAMES = ("a", "b", "c", "d")


def make_table(n: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(5)
    names = ("income", "debt", "years", "age", "other")
    frame = pd.DataFrame({name: random.normal(size=n).round(3) for name in names})
    score = 2 * frame["debt"] - frame["income"] - frame["years"] - 3 * frame["age"] + 0.5 * frame["other"]
    frame["loss"] = score.round(3)
    frame["default"] = np.where(score > 0, "yes", "no")
    return frame


def configuration(target: str, reasons: dict[str, Any]) -> dict[str, Any]:
    dropped = {"default": "loss", "loss": "default"}[target]
    return {
        "source": {"path": "t.csv", "target": target, "drop": [dropped]},
        "models": [{"default": "logistic_regression", "loss": "ridge"}[target]],
        "device": "cpu",
        "report": {"enabled": False},
        "evaluate": {"importance": False, "reason_codes": reasons},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and the run of a model with reason codes."""
    path = tmp_path_factory.mktemp("reasons")
    make_table().to_csv(path / "t.csv", index=False)
    run_pipeline(parse_config(with_path(configuration("default", REASONS), path)), path / "run")
    return path


def with_path(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    return document | {"source": document["source"] | {"path": str(folder / "t.csv")}}


@examples(100)
@given(
    values=arrays(np.float64, (3, 4), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])),
    exclude=st.sets(st.sampled_from(NAMES)),
    top=st.integers(1, 5),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_reasons_are_the_columns_that_move_a_row_most_toward_the_adverse_side(
    values: Any, exclude: set[str], top: int, sign: float
) -> None:
    codes = {"a": {"code": "A", "text": "text"}}
    found = ModelReasons(codes, sorted(exclude), top, "yes", sign).rank(NAMES, values)
    for row, reasons in zip(values, found, strict=True):
        allowed = {name: sign * value for name, value in zip(NAMES, row, strict=True) if name not in exclude}
        adverse = sorted((push for push in allowed.values() if push > 0), reverse=True)
        assert [sign * each.contribution for each in reasons] == adverse[:top]
        assert all(allowed[each.column] == sign * each.contribution for each in reasons)
        assert len({each.column for each in reasons}) == len(reasons)
        assert all(
            (each.code, each.text) == (("A", "text") if each.column == "a" else (None, None)) for each in reasons
        )


def test_all_ways_to_explain_give_the_same_reasons(folder: Path) -> None:
    rows = make_table().head(40)
    model = gp.load_model(folder / "run")
    explained = model.explain(rows)
    found = explained.reasons()
    assert {1, 2} <= {len(each) for each in found} <= {0, 1, 2}
    for values, reasons in zip(explained.values, found, strict=True):
        pushes = {name: v for name, v in zip(explained.columns, values, strict=True) if name != "age" and v > 0}
        assert [each.column for each in reasons] == sorted(pushes, key=lambda name: -pushes[name])[:2]
    assert {each.code for reasons in found for each in reasons} == {"01", "02", "03", None}
    each_row: Any = rows.to_dict("records")
    assert gp.load_scorer(folder / "run").explain(each_row).reasons() == found
    with gp.load_model(folder / "run", untrusted=True) as untrusted:
        assert untrusted.explain(rows).reasons() == found
    command = ["explain", str(folder / "run"), str(folder / "t.csv"), "-o", str(folder / "explained.parquet")]
    assert main(command) == 0
    written = pq.read_table(folder / "explained.parquet").slice(0, 40)
    for k in (1, 2):
        for part in ("code", "text", "column"):
            expected = [getattr(each[k - 1], part) if len(each) >= k else None for each in found]
            assert written[f"reason_{part}_{k}"].to_pylist() == expected
    assert "reason_code_3" not in written.column_names


@pytest.mark.parametrize(
    ("target", "adverse", "sign"),
    [("default", None, 1), ("default", "yes", 1), ("default", "no", -1), ("loss", "high", 1), ("loss", "low", -1)],
)
def test_the_adverse_side_is_stated_or_the_positive_class(
    folder: Path, tmp_path: Path, target: str, adverse: str | None, sign: int
) -> None:
    document = with_path(configuration(target, REASONS | {"adverse": adverse}), folder)
    explained = run_pipeline(parse_config(document), tmp_path / "run").model.explain(make_table().head(30))
    contributions = [each.contribution for reasons in explained.reasons() for each in reasons]
    assert len(contributions) > 20 and all(sign * value > 0 for value in contributions)


@pytest.mark.parametrize(
    ("target", "change", "says"),
    [
        ("default", {"columns": {"incom": CODES["income"]}}, "no column 'incom'; did you mean 'income'?"),
        ("default", {"exclude": ["ag"]}, "evaluate.reason_codes.exclude[0]: no column 'ag'"),
        ("default", {"columns": CODES | {"default": {"code": "9", "text": "x"}}}, "no column 'default'"),
        ("default", {"columns": CODES | {"other": {"code": "01", "text": "x"}}}, "have the same code, '01'"),
        ("default", {"exclude": ["debt"]}, "column 'debt' has a code and is in exclude"),
        ("default", {"adverse": "maybe"}, "expected one of no, yes; got 'maybe'"),
        ("loss", {}, "no value is stated as adverse; state one: adverse: high"),
    ],
)
def test_a_wrong_setting_is_one_error_of_the_check(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    change: dict[str, Any],
    says: str,
) -> None:
    document = with_path(configuration(target, REASONS | change), folder)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(document))
    assert main(["check", str(tmp_path / "c.yaml")]) == 2
    shown = capsys.readouterr().err
    assert says in shown and "1 error in " in shown
    assert main(["run", str(tmp_path / "c.yaml"), "-o", str(tmp_path / "run"), "--quiet"]) == 2
    assert not (tmp_path / "run").exists()


def test_columns_without_a_code_are_a_warning_and_models_without_codes_have_no_reasons(
    folder: Path, tmp_path: Path
) -> None:
    notes = [note.text for note in gp.load_run(folder / "run").notes if note.level == "warning"]
    assert any("1 column has no code and is not excluded" in text and text.endswith(": other") for text in notes)
    document = with_path(configuration("loss", REASONS), folder)
    document["evaluate"] = {"importance": False}
    model = run_pipeline(parse_config(document), tmp_path / "run").model
    with pytest.raises(gp.ConfigError, match="the model has no reason codes"):
        model.explain(make_table().head(2)).reasons()
