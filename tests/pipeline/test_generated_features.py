"""Runs with generated features: one selection for all views, single rows, and resumed runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.features.generation import selection, shortlist


def customers(n: int = 2400) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n).round(3) for i in range(4)})
    frame["city"], frame["plan"] = rng.choice(list("abcdef"), n), rng.choice(list("uvwx"), n)
    differs = frame.city.isin(["a", "c", "e"]) != frame.plan.isin(["u", "w"])
    score = 4 * (frame.x0 > frame.x1) + 3 * differs + rng.logistic(size=n) - 3.5
    return frame.assign(y=np.where(score > 0, "yes", "no"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("generated")
    pipeline = gp.Pipeline(
        customers(),
        target="y",
        features=["generate"],
        models=["hist_gradient_boosting", "logistic_regression"],
        evaluate={"importance": False},
    )
    return pipeline.run(folder / "run", quiet=True)


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")  # of the level that is not in training
def test_single_rows_have_the_bits_of_the_batch_path(run: Any) -> None:
    model = gp.load_model(run.path)
    rows = customers().drop(columns="y").head(7)
    rows.loc[2, "x0"], rows.loc[3, "city"], rows.loc[4, "plan"] = np.nan, None, "not in training"
    scorer = gp.load_scorer(model.folder)
    records = [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]
    np.testing.assert_array_equal(scorer.features(records), model.transform(rows))
    np.testing.assert_array_equal(scorer.predict_proba(records), model.predict_proba(rows))


def test_the_model_lists_the_inputs_and_the_run_what_was_tried(run: Any) -> None:
    model = gp.load_model(run.path)
    assert model.features.lineage["x0 - x1"] == ["x0", "x1"]
    assert any(name.startswith("city x plan (target)") for name in model.features.lineage)
    learned = json.loads(next(Path(model.folder).rglob("learned.json")).read_text())
    (summary,) = [state for state in learned if state["op"] == "Generate" and state["column"] == "(all)"]
    assert summary["kept"] == sum(state["op"] == "Generate" for state in learned) - 1
    stages = json.loads((run.path / "timeline.json").read_text())["stages"]
    notes = [note for stage in stages if stage["name"] == "features" for note in stage["notes"]]
    assert len({note for note in notes if "candidates are kept" in note}) == 1


@pytest.mark.parametrize("split", [{"time": "t"}, {"group": "g"}])
def test_rows_that_confirm_are_later_or_of_other_groups(
    split: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Any] = []

    class Recorded(shortlist.ShortlistFinder):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self.sample)

    monkeypatch.setattr(selection, "ShortlistFinder", Recorded)
    rng, frame = np.random.default_rng(0), customers(900)
    frame = frame.assign(t=rng.permutation(900), g=[f"g{i}" for i in rng.integers(0, 40, 900)])
    frame["known"] = frame.t if "time" in split else frame.g.str[1:].astype(float)
    settings: Any = {"features": ["generate"], "models": ["logistic_regression"], "split": split}
    gp.Pipeline(frame, target="y", evaluate={"importance": False}, **settings).run(tmp_path / "run", quiet=True)
    assert made
    for sample in made:
        known, confirms = sample.values["known"], ~sample.is_screened
        assert 0.25 < confirms.mean() < 0.45
        if "time" in split:
            assert known[confirms].min() > known[~confirms].max()
        else:
            assert not set(known[confirms]) & set(known[~confirms])
