"""Warnings of libraries during a run: one note in one line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn

import gpupipe as gp
from gpupipe.backends.stage import Place
from gpupipe.timeline.library_warnings import note_library_warnings
from gpupipe.timeline.timeline import Timeline

LIBRARY_FILE = str(Path(sklearn.__file__).parent / "utils" / "validation.py")


def warn_from(filename: str, text: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn_explicit(text, category, filename, 7)


@pytest.mark.filterwarnings("always")
def test_a_warning_of_a_library_is_one_note_with_its_stage() -> None:
    timeline = Timeline()
    with note_library_warnings(timeline):
        for fold in (1, 2):
            with timeline.stage(f"fold {fold}: train knn", Place("cpu")):
                warn_from(LIBRARY_FILE, "odd\n  values.\n\nMore about it")
        warn_from(LIBRARY_FILE, "afterwards", RuntimeWarning)
    notes = [(note.stage, note.text, note.level) for note in timeline.all_notes()]
    assert notes == [
        ("", "afterwards (sklearn)", "warning"),
        ("fold 1: train knn", "train knn: odd values. (sklearn)", "warning"),
    ]


def test_other_warnings_and_filters_are_those_of_the_user() -> None:
    timeline = Timeline()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with note_library_warnings(timeline):
            warn_from("/home/me/hook.py", "mine")
            warn_from(LIBRARY_FILE, "of a run", gp.RunWarning)
        warn_from(LIBRARY_FILE, "later")
    assert [str(warning.message) for warning in caught] == ["mine", "of a run", "later"] and not timeline.all_notes()
    with note_library_warnings(timeline), pytest.raises(UserWarning, match="an error"):
        warn_from(LIBRARY_FILE, "an error")  # the filter of these tests


def test_a_model_that_does_not_converge_is_named_once_in_all_folds(tmp_path: Path) -> None:
    x = np.random.default_rng(5).normal(size=(90, 3))
    frame = pd.DataFrame(x, columns=list("abc")).assign(y=x[:, 0] > 0)
    settings: dict[str, Any] = {"split": {"cv": 3}, "report": {"enabled": False}, "evaluate": {"importance": False}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = gp.Pipeline(frame, target="y", models=[{"logistic_regression": {"max_iter": 1}}], **settings).run(
            tmp_path / "run"
        )
    expected = "logistic_regression did not converge in 1 iteration: raise max_iter, or scale or drop features"
    assert [str(warning.message) for warning in caught] == [expected]
    assert [note.text for note in run.notes if note.level == "warning"] == [expected]
