"""A run that was interrupted goes on: the same digits as one that was not, and only what depends on nothing new."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.artifact import ArtifactReader
from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.errors import LimitError
from gpupipe.io.input_files import InputFiles
from gpupipe.models.matrix import predict_matrix
from gpupipe.pipeline.atomic.drafts import STALE_SECONDS
from gpupipe.pipeline.checkpoints import CheckpointStore, RunCheckpoints, inputs_key, table_key
from gpupipe.pipeline.checkpoints.contents import read_fitted_features, write_fitted_features
from gpupipe.pipeline.checkpoints.keys import CheckpointKey
from gpupipe.pipeline.job import Candidate, CandidateTraining, Job
from gpupipe.pipeline.limits.safe_points import StopSignal
from gpupipe.pipeline.run import run_pipeline

ROWS = 1200
TAKEN = "taken from the interrupted run"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of rows: numbers with nulls, categories, two classes."""
    draw = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    age, city = draw.normal(40, 9, ROWS), draw.integers(0, 9, ROWS)
    y = (age + 3 * city + draw.normal(0, 9, ROWS) > 52).astype(int)
    lines = [
        f"{'' if i % 17 == 0 else f'{a:.3f}'},c{c},{t}" for i, (a, c, t) in enumerate(zip(age, city, y, strict=True))
    ]
    path.write_text("age,city,y\n" + "\n".join(lines) + "\n")
    return path


def config(table: Path, **changes: Any) -> Config:
    document: dict[str, Any] = {
        "seed": 4,
        "source": {"path": str(table), "target": "y", "cache": False},
        "features": [{"target_encode": {"columns": ["city"], "folds": 3}}, {"standardize": ["age"]}],
        "models": [{"logistic_regression": {}}, {"xgboost": {"n_estimators": 5}}],
        "evaluate": {"importance": False, "threshold": "best_f1"},
        "report": {"enabled": False},
    }
    return parse_config(document | changes)


class Asked(Exception):
    """What stops a run."""


def stopping_before(stage: str) -> StopSignal:
    """Return what stops a run before the stage of a name."""
    stop_signal = StopSignal()

    def watch(where: str) -> None:
        if where == f"before {stage}":
            raise Asked

    stop_signal.watch(watch)
    return stop_signal


def interrupted(settings: Config, run: Path, stage: str) -> Path:
    """Run until a stage would begin; return the folder of what was kept."""
    with pytest.raises(Asked):
        run_pipeline(settings, run, stop_signal=stopping_before(stage))
    assert not run.exists()
    return run.parent / ".checkpoints"


def said(run: Path) -> dict[str, list[str]]:
    """Return the notes of each stage."""
    import json

    stages = json.loads((run / "timeline.json").read_text())["stages"]
    return {stage["name"]: stage["notes"] for stage in stages}


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The metrics of a run that nothing interrupts."""
    return metrics(run_pipeline(config(table), tmp_path_factory.mktemp("whole") / "run").path)


def metrics(run: Path) -> bytes:
    return (run / "metrics.json").read_bytes()


def test_a_run_goes_on_where_it_was_interrupted_to_the_same_digits_and_clears_up(
    table: Path, whole: bytes, tmp_path: Path
) -> None:
    kept = interrupted(config(table), tmp_path / "run", "train xgboost")
    assert len(list(kept.iterdir())) == 3  # features of two views, and a model
    # Another folder for the results, other limits, no report: nothing that a stage depends on.
    again = config(table, name="other", limits={"time": "2h"})
    run = run_pipeline(again, tmp_path / "run", resume=True).path
    notes = said(run)
    assert metrics(run) == whole
    assert notes["train logistic_regression"] == [TAKEN]
    assert notes["train xgboost"] == ["nothing of it was kept, so from the start"]
    assert all(TAKEN in note for note in notes["features"] if "columns for" in note)
    assert "predict logistic_regression" not in notes
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_without_resume_nothing_is_taken_up(table: Path, whole: bytes, tmp_path: Path) -> None:
    kept = interrupted(config(table), tmp_path / "run", "train xgboost")
    run = run_pipeline(config(table), tmp_path / "run").path
    assert metrics(run) == whole
    assert TAKEN not in str(said(run))
    assert not kept.exists()


def test_folds_and_the_last_training_are_taken_up_too(table: Path, tmp_path: Path) -> None:
    settings = config(table, split={"cv": 3})
    whole = metrics(run_pipeline(settings, tmp_path / "whole").path)
    interrupted(settings, tmp_path / "run", "fold 3 of 3: train logistic_regression")
    interrupted_again = stopping_before("export")
    with pytest.raises(Asked):
        run_pipeline(settings, tmp_path / "run", resume=True, stop_signal=interrupted_again)
    run = run_pipeline(settings, tmp_path / "run", resume=True).path
    notes = said(run)
    assert metrics(run) == whole
    trained = [name for name in notes if "train " in name]
    assert len(trained) == 7 and all(TAKEN in notes[name] for name in trained)


@pytest.mark.parametrize(
    ("changes", "reason", "touched"),
    [
        ({"models": [{"logistic_regression": {"C": 2.0}}, {"xgboost": {"n_estimators": 5}}]}, "the model", {"linear"}),
        ({"features": [{"standardize": ["age"]}]}, "the features", {"linear", "trees"}),
        ({"seed": 5}, "the training rows, the seed, the predicted rows", {"linear", "trees"}),
    ],
)
def test_what_depends_on_a_changed_setting_is_made_anew_and_that_is_said(
    table: Path, tmp_path: Path, changes: dict[str, Any], reason: str, touched: set[str]
) -> None:
    interrupted(config(table), tmp_path / "run", "evaluate")
    notes = said(run_pipeline(config(table, **changes), tmp_path / "run", resume=True).path)
    for name, model in {"linear": "logistic_regression", "trees": "xgboost"}.items():
        expected = f"not taken up, since this has changed: {reason}" if name in touched else TAKEN
        assert notes[f"train {model}"][0] == expected


def key_of(settings: Config) -> CheckpointKey:
    return inputs_key(settings, choose("cpu"), InputFiles.find(settings.source, settings.tables))


def test_a_changed_file_and_changed_code_make_another_key(table: Path, tmp_path: Path) -> None:
    mine = tmp_path / "rows.csv"
    shutil.copy(table, mine)
    first = key_of(config(mine))
    assert first.name == key_of(config(mine)).name
    mine.write_text(mine.read_text() + "40,c1,1\n")
    assert key_of(config(mine)).changed(first.parts) == ["the input"]
    assert first.of("read", the_code="new").changed(first.parts) == ["the code"]


def test_what_is_damaged_is_made_anew_and_that_is_said(table: Path, whole: bytes, tmp_path: Path) -> None:
    kept = interrupted(config(table), tmp_path / "run", "evaluate")
    for entry in kept.iterdir():
        largest = max(entry.iterdir(), key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
    run = run_pipeline(config(table), tmp_path / "run", resume=True).path
    assert metrics(run) == whole
    assert said(run)["train xgboost"][0].startswith("what was kept is damaged, so it is made anew: ")


def candidates(settings: Config, store: CheckpointStore, models: Sequence[int]) -> list[Candidate]:
    """Train some of the configured models, and save their checkpoints."""
    from gpupipe.pipeline.preparation import open_job
    from gpupipe.pipeline.timeline import Timeline

    backend = choose("cpu")
    job: Job = open_job(settings, backend, Timeline())
    checkpoints = RunCheckpoints(store, table_key(key_of(settings), job.table, job.y, job.goal, None))
    mask = np.arange(job.table.n_rows) % 4 > 0
    entries = [settings.models[i] for i in models]
    training = CandidateTraining(replace(job, checkpoints=checkpoints), entries, mask, {"test": ~mask})
    training.fit_features()
    for entry in entries:
        training.train(entry)
        training.predict(entry)
    checkpoints.flush()
    return training.candidates


FAMILIES = [
    {"random_forest": {"n_estimators": 3}}, {"hist_gradient_boosting": {"max_iter": 3}}, {"linear_svc": {}},
    {"knn": {}}, {"gaussian_nb": {}}, {"logistic_regression": {}}, {"xgboost": {"n_estimators": 3}},
]  # fmt: skip


def test_every_kind_of_model_is_taken_up_with_the_same_bits(table: Path, tmp_path: Path) -> None:
    settings = config(table, models=FAMILIES)
    every = range(len(FAMILIES))
    made = candidates(settings, CheckpointStore(tmp_path / "kept"), every)
    taken = candidates(settings, CheckpointStore(tmp_path / "kept", resume=True), every)
    for one, other in zip(made, taken, strict=True):
        X = one.matrices["test"]
        np.testing.assert_array_equal(X, other.matrices["test"])
        assert one.trained.seconds == other.trained.seconds and one.trained.model.notes == other.trained.model.notes
        for prediction in (other.predictions["test"], predict_matrix(X, other.trained.model, choose("cpu"))):
            np.testing.assert_array_equal(one.predictions["test"].probability, prediction.probability)


def test_results_wait_until_they_took_30_seconds_or_the_run_ends_early(tmp_path: Path) -> None:
    checkpoints, written = RunCheckpoints(), []
    checkpoints.store = CheckpointStore(tmp_path / "kept")

    def save(name: str, seconds: float) -> None:
        checkpoints.save(CheckpointKey(name, {name: "1"}), seconds, lambda folder: written.append(name))

    save("features", 0.1)
    save("quick", 29.0)
    assert not written
    save("another", 1.0)
    assert written == ["features", "quick", "another"]
    with pytest.raises(Asked), checkpoints.flush_on_error():
        save("last", 29.0)
        assert len(written) == 3
        raise Asked
    assert written[3:] == ["last"]


def test_fitted_features_come_back_whole(table: Path, tmp_path: Path) -> None:
    settings = config(table)
    made = candidates(settings, CheckpointStore(), [1])[0].trained.features
    write_fitted_features(tmp_path / "features", CheckpointKey("features", {"a": "1"}), made, choose("cpu"))
    read = read_fitted_features(ArtifactReader(tmp_path / "features"), None, choose("cpu"))
    assert (read.schema, read.features, read.notes) == (made.schema, made.features, made.notes)
    assert made.training_program is not None and read.training_program is not None
    for mine, other in ((made.program, read.program), (made.training_program, read.training_program)):
        for name, values in mine.arrays().items():
            np.testing.assert_array_equal(values, other.arrays()[name])
    np.testing.assert_array_equal(made.folds, read.folds)


def test_features_whose_folds_are_on_workers_are_not_kept(table: Path, tmp_path: Path) -> None:
    settings, checkpoints = config(table), RunCheckpoints(CheckpointStore(tmp_path / "kept"))
    made = candidates(settings, CheckpointStore(), [1])[0].trained.features
    of_rows = checkpoints.of_rows("", settings, choose("cpu"), np.ones(3, bool), {})
    parts: Any = [object()]
    of_rows.save_features("codes", replace(made, folds=parts), 0.1)
    checkpoints.flush()
    assert not (tmp_path / "kept").exists()
    of_rows.save_features("codes", made, 0.1)
    checkpoints.flush()
    assert len(list((tmp_path / "kept").iterdir())) == 1


def write_text(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "x").write_text(text)
        (folder / "manifest.json").write_text("{}")

    return write


def test_runs_that_keep_the_same_result_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    one, other, key = CheckpointStore(tmp_path / "c"), CheckpointStore(tmp_path / "c"), CheckpointKey("a", {"a": "1"})

    def write_slowly(folder: Path) -> None:
        other.save(key, write_text("whole"))
        write_text("whole")(folder)

    one.save(key, write_slowly)
    assert [path.name for path in (tmp_path / "c").iterdir()] == [key.name]
    assert (tmp_path / "c" / key.name / "x").read_text() == "whole"
    other.save(CheckpointKey("b", {"b": "2"}), write_text("of another run"))
    one.clear()
    assert [path.name for path in (tmp_path / "c").iterdir()] == [CheckpointKey("b", {"b": "2"}).name]
    one.save(key, write_text("whole"))
    one.clear()
    other.clear()
    assert not (tmp_path / "c").exists()


def test_what_nobody_has_come_back_for_is_swept_after_a_week(tmp_path: Path) -> None:
    folder = tmp_path / ".checkpoints"
    (folder / ".draft-0123456789abcdef").mkdir(parents=True)
    old, new = "0" * 32, "1" * 32
    for name in (old, new):
        (folder / name).mkdir()
        (folder / name / "manifest.json").write_text("{}")
        (folder / f"{name}.pt").write_text("state")
    (folder / f"{old}.77.tmp").write_text("half a state")
    (folder / "epoch-10.pt").write_text("of another program")
    others = ["best", "2" * 32, ".draft-fedcba9876543210", f"{old}.notes"]
    for name in others:
        (folder / name).mkdir()
        (folder / name / "weights.pt").write_text("of another program, in its folder of the same name")
    (folder / ("3" * 32)).symlink_to(folder / new, target_is_directory=True)
    long_ago = time.time() - STALE_SECONDS - 60
    for name in (old, f"{old}.pt", f"{old}.77.tmp", "epoch-10.pt", *others):
        os.utime(folder / name, (long_ago, long_ago))
    os.utime(folder / ("3" * 32), (long_ago, long_ago), follow_symlinks=False)
    with CheckpointStore.beside(tmp_path / "run", resume=True) as store:
        assert {path.name for path in folder.iterdir()} == {new, f"{new}.pt", "epoch-10.pt", *others, "3" * 32}
        store.used |= {old, new}
    assert {path.name for path in folder.iterdir()} == {"epoch-10.pt", *others, "3" * 32}
    assert all((folder / name / "weights.pt").exists() for name in others)


def test_a_full_disk_is_said_and_what_was_kept_stays(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c")
    store.save(CheckpointKey("a", {"a": "1"}), write_text("kept"))

    def fill(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(LimitError, match="the disk is full") as caught:
        store.save(CheckpointKey("b", {"b": "2"}), fill)
    assert "--resume" in caught.value.fix
    assert [path.name for path in (tmp_path / "c").iterdir()] == [CheckpointKey("a", {"a": "1"}).name]
