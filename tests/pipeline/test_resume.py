"""Tests of --resume: same digits as an uninterrupted run, and only unchanged stages are loaded from checkpoints."""

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
from gpupipe.files.drafts import STALE_SECONDS
from gpupipe.io.input_files import InputFiles
from gpupipe.models.matrix import predict_matrix
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.training.checkpoints.contents import read_fitted_features, write_fitted_features
from gpupipe.training.checkpoints.keys import CheckpointKey, inputs_key, table_key
from gpupipe.training.checkpoints.run_checkpoints import RunCheckpoints
from gpupipe.training.checkpoints.store import CheckpointStore
from gpupipe.training.job import Candidate, CandidateTraining, Job

ROWS = 1200
RESUMED = "loaded from a checkpoint"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with numbers and nulls, categories, and two classes."""
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


class Interruption(Exception):
    """Raised to stop a run."""


def stopping_before(stage: str) -> StopSignal:
    """Return a signal that stops a run before the named stage."""
    stop_signal = StopSignal()

    def watch(where: str) -> None:
        if where == f"before {stage}":
            raise Interruption

    stop_signal.watch(watch)
    return stop_signal


def interrupted(settings: Config, run: Path, stage: str) -> Path:
    """Run until the named stage would start; return the folder of checkpoints."""
    with pytest.raises(Interruption):
        run_pipeline(settings, run, stop_signal=stopping_before(stage))
    assert not run.exists()
    return run.parent / ".checkpoints"


def notes_of(run: Path) -> dict[str, list[str]]:
    """Return the notes of each stage."""
    import json

    stages = json.loads((run / "timeline.json").read_text())["stages"]
    return {stage["name"]: stage["notes"] for stage in stages}


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Metrics of an uninterrupted run."""
    return metrics(run_pipeline(config(table), tmp_path_factory.mktemp("whole") / "run").path)


def metrics(run: Path) -> bytes:
    return (run / "metrics.json").read_bytes()


def test_a_resumed_run_gives_the_same_digits_and_removes_its_checkpoints(
    table: Path, whole: bytes, tmp_path: Path
) -> None:
    kept = interrupted(config(table), tmp_path / "run", "train xgboost")
    assert len(list(kept.iterdir())) == 3  # features of two views, and a model
    # Changes that no stage depends on: another folder for the results, other limits, no report.
    again = config(table, name="other", limits={"time": "2h"})
    run = run_pipeline(again, tmp_path / "run", resume=True).path
    notes = notes_of(run)
    assert metrics(run) == whole
    assert notes["train logistic_regression"] == [RESUMED]
    assert notes["train xgboost"][0] == "no checkpoint, so computed from the start"
    assert all(RESUMED in note for note in notes["features"] if "columns for" in note)
    assert "predict logistic_regression" not in notes
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_without_resume_no_checkpoint_is_loaded(table: Path, whole: bytes, tmp_path: Path) -> None:
    kept = interrupted(config(table), tmp_path / "run", "train xgboost")
    run = run_pipeline(config(table), tmp_path / "run").path
    assert metrics(run) == whole
    assert RESUMED not in str(notes_of(run))
    assert not kept.exists()


def test_folds_and_the_final_training_are_resumed(table: Path, tmp_path: Path) -> None:
    settings = config(table, split={"cv": 3})
    whole = metrics(run_pipeline(settings, tmp_path / "whole").path)
    interrupted(settings, tmp_path / "run", "fold 3 of 3: train logistic_regression")
    interrupted_again = stopping_before("export")
    with pytest.raises(Interruption):
        run_pipeline(settings, tmp_path / "run", resume=True, stop_signal=interrupted_again)
    run = run_pipeline(settings, tmp_path / "run", resume=True).path
    notes = notes_of(run)
    assert metrics(run) == whole
    trained = [name for name in notes if "train " in name]
    assert len(trained) == 7 and all(RESUMED in notes[name] for name in trained)


@pytest.mark.parametrize(
    ("changes", "reason", "touched"),
    [
        ({"models": [{"logistic_regression": {"C": 2.0}}, {"xgboost": {"n_estimators": 5}}]}, "the model", {"linear"}),
        ({"features": [{"standardize": ["age"]}]}, "the features", {"linear", "trees"}),
        ({"seed": 5}, "the training rows, the seed, the predicted rows", {"linear", "trees"}),
    ],
)
def test_stages_that_depend_on_a_changed_setting_are_recomputed_with_a_note(
    table: Path, tmp_path: Path, changes: dict[str, Any], reason: str, touched: set[str]
) -> None:
    interrupted(config(table), tmp_path / "run", "evaluate")
    notes = notes_of(run_pipeline(config(table, **changes), tmp_path / "run", resume=True).path)
    for name, model in {"linear": "logistic_regression", "trees": "xgboost"}.items():
        expected = f"recomputed, because of changes to {reason}" if name in touched else RESUMED
        assert notes[f"train {model}"][0] == expected


def key_of(settings: Config) -> CheckpointKey:
    return inputs_key(settings, choose("cpu"), InputFiles.find(settings.source, settings.tables))


def test_a_changed_file_and_changed_code_change_the_key(table: Path, tmp_path: Path) -> None:
    mine = tmp_path / "rows.csv"
    shutil.copy(table, mine)
    first = key_of(config(mine))
    assert first.name == key_of(config(mine)).name
    mine.write_text(mine.read_text() + "40,c1,1\n")
    assert key_of(config(mine)).changed(first.parts) == ["the input"]
    assert first.of("read", the_code="new").changed(first.parts) == ["the code"]


def test_corrupt_checkpoints_are_recomputed_with_a_note(table: Path, whole: bytes, tmp_path: Path) -> None:
    kept = interrupted(config(table), tmp_path / "run", "evaluate")
    for entry in kept.iterdir():
        largest = max(entry.iterdir(), key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
    run = run_pipeline(config(table), tmp_path / "run", resume=True).path
    assert metrics(run) == whole
    assert notes_of(run)["train xgboost"][0].startswith("recomputed, because the checkpoint is corrupt: ")


def candidates(settings: Config, store: CheckpointStore, models: Sequence[int]) -> list[Candidate]:
    """Train some of the configured models, saving their checkpoints."""
    from gpupipe.timeline.timeline import Timeline
    from gpupipe.training.preparation.preparation import open_job

    backend = choose("cpu")
    job: Job = open_job(settings, backend, Timeline())
    checkpoints = RunCheckpoints(
        store, table_key(key_of(settings), job.table, job.truth(np.arange(job.table.n_rows)), job.goal, None)
    )
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


def test_every_model_is_loaded_from_its_checkpoint_bit_for_bit(table: Path, tmp_path: Path) -> None:
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


def test_results_are_saved_after_10_seconds_of_work_or_if_the_run_fails(tmp_path: Path) -> None:
    checkpoints, written = RunCheckpoints(), []
    checkpoints.store = CheckpointStore(tmp_path / "kept")

    def save(name: str, seconds: float) -> None:
        checkpoints.save(CheckpointKey(name, {name: "1"}), seconds, lambda folder: written.append(name))

    save("features", 0.1)
    save("quick", 9.0)
    assert not written
    save("another", 1.0)
    assert written == ["features", "quick", "another"]
    with pytest.raises(Interruption), checkpoints.flush_on_error():
        save("last", 9.0)
        assert len(written) == 3
        raise Interruption
    assert written[3:] == ["last"]


def test_fitted_features_round_trip(table: Path, tmp_path: Path) -> None:
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


def test_features_whose_folds_are_on_workers_are_not_saved(table: Path, tmp_path: Path) -> None:
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


def test_concurrent_runs_can_save_the_same_result(tmp_path: Path) -> None:
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


def test_abandoned_checkpoints_are_removed_after_a_week(tmp_path: Path) -> None:
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
    with CheckpointStore.for_run(tmp_path / "run", resume=True) as store:
        assert {path.name for path in folder.iterdir()} == {new, f"{new}.pt", "epoch-10.pt", *others, "3" * 32}
        store.used |= {old, new}
    assert {path.name for path in folder.iterdir()} == {"epoch-10.pt", *others, "3" * 32}
    assert all((folder / name / "weights.pt").exists() for name in others)


def test_a_full_disk_raises_an_error_and_keeps_earlier_checkpoints(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c")
    store.save(CheckpointKey("a", {"a": "1"}), write_text("kept"))

    def fill(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(LimitError, match="the disk is full") as caught:
        store.save(CheckpointKey("b", {"b": "2"}), fill)
    assert "--resume" in caught.value.fix
    assert [path.name for path in (tmp_path / "c").iterdir()] == [CheckpointKey("a", {"a": "1"}).name]


def test_components_of_texts_are_learned_again(tmp_path: Path) -> None:
    path, draw = tmp_path / "texts.csv", np.random.default_rng(5)
    words = np.array(["late", "paid", "order", "refund", "box"])
    notes = [" ".join(draw.choice(words, 4)) for _ in range(300)]
    path.write_text("note,y\n" + "\n".join(f"{note},{int('late' in note)}" for note in notes) + "\n")
    features = [{"text_vectors": {"columns": "note", "n_components": 3}}]
    settings = config(path, features=features, split={"cv": 3})
    whole = metrics(run_pipeline(settings, tmp_path / "whole").path)
    interrupted(settings, tmp_path / "run", "fold 2 of 3: train xgboost")
    run = run_pipeline(settings, tmp_path / "run", resume=True).path
    assert metrics(run) == whole
    assert notes_of(run)["fold 1 of 3: train xgboost"][0] == RESUMED
