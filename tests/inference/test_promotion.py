"""Folders of generations: promotion, the way back, refusals, damage, concurrency and kills."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupipe import ArtifactError, ConfigError, Pipeline, load_model, load_scorer
from gpupipe.children import child_environment, python_command
from gpupipe.cli import main
from gpupipe.inference.copy import copy_model
from gpupipe.inference.model_history import model_history
from gpupipe.inference.promotion import promote, rollback
from gpupipe.model_parts.generations import GENERATIONS, LOG, POINTER
from gpupipe.model_parts.lineage import Generation
from tests.examples import examples
from tests.model_parts.conftest import with_lineage
from tests.serve.conftest import make_table, train

OWN = Generation("", "2026-10-01T06:00:00+00:00", 800, ("2026-09-01", "2026-09-30"), "continued", "keep", ("too bad",))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four models of the same inputs and outputs."""
    folder = tmp_path_factory.mktemp("models")
    quick = {"report": {"enabled": False}, "evaluate": {"importance": False}}
    return [train(folder / f"run{seed}", seed, **quick) / "model" for seed in range(4)]


def hash_of(model: Path) -> str:
    return str(json.loads((model / "manifest.json").read_bytes())["manifest_sha256"])


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints."""
    code = main([*map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_every_reader_follows_a_folder_to_its_current_model(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "production"
    row = {str(name): value for name, value in make_table(9).drop(columns="left").iloc[0].items()}
    names = []
    for i in (0, 1):
        assert run(capsys, "promote", folder, models[i].parent)[0] == 0
        assert load_scorer(folder).predict_proba(row)[1] == load_scorer(models[i]).predict_proba(row)[1]
        names.append(load_model(folder).folder.name)
        assert names[-1] == f"000{i + 1}-{hash_of(models[i])[:12]}"
    make_table(9).to_parquet(tmp_path / "rows.parquet")
    assert run(capsys, "predict", folder, tmp_path / "rows.parquet", "-o", tmp_path / "scores.csv")[0] == 0
    code, text = run(capsys, "predict", folder, tmp_path / "rows.parquet", "-o", folder / "scores.csv")
    assert code == 2 and "the output would be inside the model" in text
    assert run(capsys, "promote", tmp_path / "copy", folder)[0] == 0  # from one folder of generations to another
    assert load_model(tmp_path / "copy").manifest["manifest_sha256"] == hash_of(models[1])
    assert run(capsys, "promote", folder, models[1])[1] == f"current   {names[1]}, as before\n"
    before = (folder / POINTER).read_bytes()
    os.link(folder / POINTER, tmp_path / "kept")
    assert run(capsys, "rollback", folder) == (0, f"current   {names[0]}\nreplaces  {names[1]}\n")
    assert load_model(folder).folder == folder / GENERATIONS / names[0]
    assert (tmp_path / "kept").read_bytes() == before  # the pointer was replaced, not written over
    assert sorted(path.name for path in folder.iterdir()) == [POINTER, GENERATIONS, LOG]


BACK = st.just(("back", 0))
STEP = st.one_of(st.tuples(st.just("promote"), st.integers(0, 3)), BACK, st.tuples(st.just("to"), st.integers(0, 3)))


@example(steps=[("promote", 0), ("promote", 1), ("promote", 2), ("promote", 0), *[("back", 0)] * 3])
@given(steps=st.lists(STEP, min_size=3, max_size=9))
@examples(40)
def test_rollbacks_return_in_the_order_in_which_models_were_current(
    models: list[Path], tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """The reference is a list of the models to return to, with the current one last."""
    folder = tmp_path_factory.mktemp("steps") / "production"
    hashes = [hash_of(model) for model in models]
    stack, ids = list[int](), dict[int, str]()
    log = list[tuple[str, str | None, str]]()
    for action, i in steps:
        before = stack[-1] if stack else None
        act = partial(rollback, folder, ids.get(i, "0000-absent")) if action == "to" else partial(rollback, folder)
        if action == "promote":
            promote(folder, models[i], "cpu")
            stack = [each for each in stack if each != i] + [i]
            ids.setdefault(i, f"{len(ids) + 1:04d}-{hashes[i][:12]}")
        elif (action == "to" and i not in ids) or (action == "back" and len(stack) < 2):
            with pytest.raises(ConfigError):
                act()
        else:
            act()
            stack = stack[:-1] if action == "back" else stack[: stack.index(i) + 1] if i in stack else [*stack, i]
        if stack:
            assert load_model(folder).manifest["manifest_sha256"] == hashes[stack[-1]]
            if before != stack[-1]:
                log.append((action, None if before is None else ids[before], ids[stack[-1]]))
    if stack:
        found = model_history(folder)
        assert [each["id"] for each in found["generations"]] == sorted(ids.values())
        assert [(each["from"], each["to"]) for each in found["promotions"]] == [each[1:] for each in log]


def test_a_challenger_that_is_worse_or_incompatible_is_refused_unless_forced(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "production"
    quick = {"report": {"enabled": False}, "evaluate": {"importance": False}}
    table = make_table(5)
    Pipeline(table.assign(extra=1.5), target="left", models=["logistic_regression"], **quick).run(  # type: ignore[arg-type]
        tmp_path / "wide", quiet=True
    )
    Pipeline(table.astype({"plan": str, "income": str}), target="age", models=["ridge"], **quick).run(  # type: ignore[arg-type]
        tmp_path / "ages", quiet=True
    )
    parent = Generation(hash_of(models[1]), "2026-09-01", 9_000, None, "trained", None, ())
    kept = with_lineage(models[2], tmp_path / "kept", parent, OWN)
    better = with_lineage(models[2], tmp_path / "better", parent, replace(OWN, verdict="promote"))
    assert run(capsys, "promote", folder, kept)[0] == 6 and not folder.exists()
    assert run(capsys, "promote", folder, models[0])[0] == 0
    for model, code, problem in [
        (kept, 6, "the verdict on the challenger is 'keep':\n  too bad"),
        (tmp_path / "wide", 2, "the column 'extra' is not an input of the current model"),
        (tmp_path / "ages", 2, "its task is regression; that of the current model is binary"),
        (tmp_path / "absent", 5, "no such directory"),
    ]:
        found, text = run(capsys, "promote", folder, model)
        assert found == code and problem in text and ("--force" in text or code == 5)
    assert [*(folder / GENERATIONS).iterdir()] == [load_model(folder).folder]
    assert "not from the one it replaces" in run(capsys, "promote", folder, better)[1]
    assert run(capsys, "promote", folder, kept, "--force")[0] == 0
    code, text = run(capsys, "history", folder)
    assert code == 0 and "*   0003-" in text and "2026-09-01 to 2026-09-30   continued   keep" in text
    assert run(capsys, "history", kept)[1].count("800") == 1 and f"{9000:,}" in run(capsys, "history", kept)[1]
    assert run(capsys, "promote", models[0].parent, models[1])[0] == 2  # a run directory
    assert run(capsys, "promote", kept / "manifest.json", models[1])[0] == 2
    assert run(capsys, "rollback", tmp_path / "absent")[0] == 2


@pytest.fixture
def folder(models: list[Path], tmp_path: Path) -> Path:
    """A folder with two generations, of which the second is current."""
    for model in models[:2]:
        promote(tmp_path / "production", model, "cpu")
    return tmp_path / "production"


def _point_outside(folder: Path) -> None:
    values = json.loads((folder / POINTER).read_text())
    (folder / POINTER).write_text(json.dumps(values | {"current": "../../elsewhere"}))


def _link_pointer(folder: Path) -> None:
    (folder / POINTER).rename(folder.with_name("elsewhere.json"))
    (folder / POINTER).symlink_to(folder.with_name("elsewhere.json"))


def _link_generation(folder: Path) -> None:
    path = load_model(folder).folder
    path.rename(folder.with_name("elsewhere"))
    path.symlink_to(folder.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / POINTER).write_text("{"), "the pointer to the current generation is corrupt"),
        (_point_outside, "expected a generation, such as 0001-0123456789ab; found '../../elsewhere'"),
        (_link_pointer, "it is a symbolic link"),
        (_link_generation, "the current generation is missing"),
    ],
)
def test_a_damaged_folder_is_refused_until_a_generation_is_chosen(
    folder: Path, models: list[Path], capsys: pytest.CaptureFixture[str], damage: Callable[[Path], object], problem: str
) -> None:
    damage(folder)
    for command in (["verify", folder], ["promote", folder, models[2]]):
        code, text = run(capsys, *command)
        assert code == 5 and problem in text and f"gpupipe rollback {folder} --to ID" in text
    assert run(capsys, "rollback", folder, "--to", "1")[0] == 0
    assert load_model(folder).manifest["manifest_sha256"] == hash_of(models[0])


def test_a_damaged_generation_is_not_returned_to_and_is_promoted_as_a_new_one(
    folder: Path, models: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first = folder / GENERATIONS / f"0001-{hash_of(models[0])[:12]}"
    (first / "learned.json").write_text("[]")
    code, text = run(capsys, "rollback", folder)
    assert code == 5 and "choose another generation with --to ID" in text
    assert load_model(folder).manifest["manifest_sha256"] == hash_of(models[1])
    assert f"warning: {first.name}: learned.json has the wrong size" in run(capsys, "history", folder)[1]
    assert promote(folder, models[0], "cpu").current == f"0003-{hash_of(models[0])[:12]}"


def test_a_challenger_that_is_replaced_while_it_is_copied_is_not_promoted(
    folder: Path, models: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_other(source: Path, *arguments: Any) -> Any:
        return copy_model(models[3], *arguments)

    monkeypatch.setattr("gpupipe.inference.promotion.copy_model", copy_other)
    with pytest.raises(ArtifactError, match="the challenger was replaced while it was copied"):
        promote(folder, models[2], "cpu")
    assert load_model(folder).manifest["manifest_sha256"] == hash_of(models[1])


def test_a_torn_line_of_the_log_is_skipped_and_written_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = folder / LOG
    whole = log.read_bytes()
    assert len(whole.splitlines()) == 2
    log.write_bytes(whole[:-30])  # killed while it wrote the second line
    lost = model_history(folder)["promotions"]
    assert [each["to"][:4] for each in lost] == ["0001", "0002"]  # from the pointer
    rollback(folder)
    found = model_history(folder)
    assert [each["to"][:4] for each in found["promotions"]] == ["0001", "0002", "0001"] and found[
        "unreadable_lines"
    ] == 1
    assert "warning: 1 lines of the log cannot be read" in run(capsys, "history", folder)[1]
    log.unlink()
    log.symlink_to(folder.with_name("elsewhere"))  # cannot be written: the rollback holds, the line is not lost
    assert rollback(folder, "2").current[:4] == "0002" and not os.path.lexists(folder.with_name("elsewhere"))
    log.unlink()
    assert model_history(folder)["promotions"][-1]["to"][:4] == "0002"


def test_concurrent_promotions_take_turns(models: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "production"
    with ThreadPoolExecutor() as pool:
        found = [*pool.map(lambda model: promote(folder, model, "cpu"), models)]
    assert sorted(each.current[:4] for each in found) == ["0001", "0002", "0003", "0004"]
    log = model_history(folder)["promotions"]
    assert [each["from"] for each in log] == [None, *(each["to"] for each in log[:-1])]


@pytest.mark.parametrize("action", ["promote", "rollback"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_model(
    folder: Path, models: list[Path], tmp_path: Path, action: str
) -> None:
    old, new = load_model(folder).folder.name, f"0003-{hash_of(models[2])[:12]}"
    new = f"0001-{hash_of(models[0])[:12]}" if action == "rollback" else new
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = (str(folder), action, str(models[2]), str(scratch))
    command = python_command("-m", "tests.inference.killed_promotions", *arguments)
    found = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert len(lines) > (30 if action == "promote" else 3)
    names = sorted([POINTER, GENERATIONS, LOG, *(path.name for path in (folder / GENERATIONS).iterdir()), new])
    left = [line[0] for line in lines]
    assert {*left} == {old, new} and left == sorted(left, key=lambda name: name == new)  # old first, then new
    assert [line[1:] for line in lines] == [[new, *dict.fromkeys(names)]] * len(lines)
