from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from gpupipe.errors import ConfigError
from gpupipe.files import directory as atomic_directory
from gpupipe.files.drafts import MARKER
from gpupipe.files.jsonfile import write_json
from gpupipe.files.policy import MODE
from gpupipe.files.rename import exchange
from gpupipe.pipeline.records.rundir import RunDirectory, default_run_directory

FILES = {"config.yaml": "name: x\n", "metrics.json": "{}\n", "report.html": "<p>" * 100}


def write_run(final: Path, mark: str = "") -> None:
    with RunDirectory(final) as run:
        for name, text in FILES.items():
            (run.path / name).write_text(text + mark)


CHURN = ["churn", *(f"churn/{name}" for name in sorted([*FILES, "run.json"]))]


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_run_directory_appears_when_it_is_complete_and_leaves_no_other_files(tmp_path: Path) -> None:
    final = tmp_path / "runs" / "churn"
    with RunDirectory(final) as run:
        write_json(run.path / "metrics.json", {"best": "x", "models": {"x": {"roc_auc": float("nan")}}})
        (run.path / "model").mkdir()
        (run.path / "model" / "manifest.json").write_text("{}")
        assert not final.exists()
        assert run.path.parents[1] == final.parent
        assert re.fullmatch(r"\.churn\.tmp-[0-9a-f]{16}/new", str(run.path.relative_to(final.parent)))
    assert run.path == final
    written = ["churn", "churn/metrics.json", "churn/model", "churn/model/manifest.json", "churn/run.json"]
    assert tree(tmp_path / "runs") == written
    assert json.loads((final / "metrics.json").read_text()) == {"best": "x", "models": {"x": {"roc_auc": None}}}


@pytest.mark.parametrize("mask", [0o000, 0o077])
@pytest.mark.parametrize(("mode", "of_folders"), [(0o600, 0o700), (0o640, 0o750), (0o644, 0o755), (0o660, 0o770)])
def test_files_and_folders_have_the_mode_of_the_policy_and_a_draft_is_private(
    tmp_path: Path, mask: int, mode: int, of_folders: int
) -> None:
    before, token = os.umask(mask), MODE.set(mode)
    try:
        tmp_path.chmod(0o2777)  # folders in it inherit its group
        with RunDirectory(tmp_path / "churn") as run:
            (run.path / "model").mkdir()
            (run.path / "model" / "levels.json").write_text("{}")
            (run.path / "log.jsonl").touch(0o666)
            assert stat.S_IMODE(run.path.parent.stat().st_mode) & 0o777 == 0o700
    finally:
        os.umask(before)
        MODE.reset(token)
    for path in (tmp_path / "churn", *(tmp_path / "churn").rglob("*")):
        expected = of_folders | stat.S_ISGID if path.is_dir() else mode
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_run_leaves_no_files(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), RunDirectory(tmp_path / "churn") as run:
        (run.path / "config.yaml").write_text("half")
        raise error
    assert tree(tmp_path) == []


def test_a_failed_run_does_not_change_the_earlier_one(tmp_path: Path) -> None:
    write_run(tmp_path / "churn", "first")
    with pytest.raises(ValueError, match="late"), RunDirectory(tmp_path / "churn") as run:
        (run.path / "config.yaml").write_text("half")
        raise ValueError("late")
    assert (tmp_path / "churn" / "config.yaml").read_text() == FILES["config.yaml"] + "first"
    assert tree(tmp_path) == CHURN


def test_an_earlier_run_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_run(tmp_path / "churn", "first")
    (tmp_path / "churn" / "report.html").unlink()  # files that the user removed do not prevent a replacement
    write_run(tmp_path / "churn", "second")
    assert tree(tmp_path) == CHURN
    assert (tmp_path / "churn" / "config.yaml").read_text().endswith("second")


def test_an_empty_directory_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "churn").mkdir()
    write_run(tmp_path / "churn")
    assert (tmp_path / "churn" / "config.yaml").exists()


def test_paths_that_are_not_run_directories_are_rejected_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "metrics.json").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("photos")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    reasons = {
        "photos": "no valid run.json", "file": "is a file", "link": "symbolic link", "here": "current directory",
        "file/below": "cannot write here",
    }  # fmt: skip
    before = tree(tmp_path)
    for name, reason in reasons.items():
        with pytest.raises(ConfigError, match=reason), RunDirectory(tmp_path / name):
            pytest.fail("the run began")
    with pytest.raises(ConfigError, match="mount point"), RunDirectory(Path("/")):
        pytest.fail("the run began")
    assert tree(tmp_path) == before


def test_a_path_taken_during_the_run_is_not_overwritten_and_the_run_is_kept_next_to_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught, RunDirectory(tmp_path / "churn") as run:
        (run.path / "config.yaml").write_text("complete")
        (tmp_path / "churn").mkdir()
        (tmp_path / "churn" / "mine.txt").write_text("mine")
    (kept,) = tmp_path.glob("churn.new-*")
    assert f"the complete output is in {kept}" in str(caught.value)
    written = [kept.name, f"{kept.name}/config.yaml", f"{kept.name}/run.json"]
    assert tree(tmp_path) == sorted(["churn", "churn/mine.txt", *written])


def add_a_note(run: Path) -> None:
    (run / "notes.txt").write_text("mine")


def add_a_plot(run: Path) -> None:
    (run / "model").mkdir()
    (run / "model" / "mine.png").write_text("mine")


def link_a_file(run: Path) -> None:
    (run / "report.html").rename(run.parent / "report.html")
    (run / "report.html").symlink_to("../report.html")


def link_a_folder(run: Path) -> None:
    (run.parent / "elsewhere").mkdir()
    (run / "plots").symlink_to("../elsewhere", target_is_directory=True)


def edit(run: Path) -> None:
    (run / "config.yaml").write_text(FILES["config.yaml"].upper())


def remove_the_marker(run: Path) -> None:
    (run / "run.json").unlink()


def damage_the_marker(run: Path) -> None:
    (run / "run.json").write_text("{}")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (add_a_note, "the earlier run did not write: notes.txt"), (add_a_plot, "did not write: model/mine.png"),
        (link_a_file, "did not write: report.html"), (link_a_folder, "did not write: plots"),
        (edit, "have changed: config.yaml"), (remove_the_marker, "no valid run.json"),
        (damage_the_marker, "no valid run.json"),
    ],
)  # fmt: skip
def test_an_earlier_run_with_other_files_is_not_replaced(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    write_run(tmp_path / "churn")
    change(tmp_path / "churn")
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match=reason) as caught, RunDirectory(tmp_path / "churn"):
        pytest.fail("the run began")
    assert "another --output" in caught.value.fix
    assert tree(tmp_path) == before


def test_a_folder_of_another_program_with_the_same_file_names_is_not_replaced(tmp_path: Path) -> None:
    for name in ("config.yaml", "metrics.json", "chapters/1.tex"):
        (tmp_path / "thesis" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "thesis" / name).write_text("{}")
    with pytest.raises(ConfigError, match="it may not be a run directory"), RunDirectory(tmp_path / "thesis"):
        pytest.fail("the run began")
    assert (tmp_path / "thesis" / "chapters" / "1.tex").exists()


def test_an_earlier_run_to_which_a_file_is_added_during_the_run_is_kept(tmp_path: Path) -> None:
    write_run(tmp_path / "churn", "first")
    with pytest.raises(ConfigError, match=r"notes\.txt"), RunDirectory(tmp_path / "churn") as run:
        (run.path / "config.yaml").write_text("second")
        add_a_note(tmp_path / "churn")
    assert tree(tmp_path / "churn") == sorted([*FILES, "run.json", "notes.txt"])
    assert (tmp_path / "churn" / "config.yaml").read_text().endswith("first")


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_earlier_run_to_which_a_file_is_added_after_the_last_check_is_kept_next_to_the_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    write_run(tmp_path / "churn", "first")

    def add_and_exchange(one: Path, other: Path) -> bool:
        add_a_note(tmp_path / "churn")
        return can_exchange and exchange(one, other)

    monkeypatch.setattr(atomic_directory, "exchange", add_and_exchange)
    write_run(tmp_path / "churn", "second")
    (kept,) = tmp_path.glob("churn.earlier-*")
    assert sorted(os.listdir(kept)) == sorted([*FILES, "run.json", "notes.txt"])
    assert (tmp_path / "churn" / "config.yaml").read_text().endswith("second")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_takes_the_name_after_the_last_check_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "churn", "first")

    def replace_and_exchange(one: Path, other: Path) -> bool:
        shutil.rmtree(other)
        other.write_text("mine")
        return exchange(one, other)

    monkeypatch.setattr(atomic_directory, "exchange", replace_and_exchange)
    write_run(tmp_path / "churn", "second")
    (kept,) = tmp_path.glob("churn.earlier-*")
    assert kept.read_text() == "mine"


LEFT = "0123456789abcdef"


def test_only_marked_drafts_of_ended_processes_are_removed(tmp_path: Path) -> None:
    gone = [f".churn.tmp-{LEFT}", f".another-20260101-101010-abcdef.tmp-{LEFT}"]
    stay = [
        f".churn.tmp-{LEFT[:-1]}", f".churn.tmp-{LEFT.upper()}", f".churn.tmp-{LEFT}-notes", f"churn.tmp-{LEFT}",
        f".churn.old-{LEFT}", f".tmp-{LEFT}",
    ]  # fmt: skip
    write_run(tmp_path / "churn")
    for name in gone + stay:
        (tmp_path / name / "new").mkdir(parents=True)
        (tmp_path / name / "new" / "x").write_text("x")
        (tmp_path / name / MARKER).touch()
    file, unmarked = tmp_path / f".churn.tmp-{LEFT[::-1]}", tmp_path / f".vacation.tmp-{LEFT[::-1]}"
    file.write_text("a file of that name is not ours")
    unmarked.mkdir()
    (unmarked / "photo.jpg").write_text("a folder of that name is not ours without the marker")
    (tmp_path / f".empty.tmp-{LEFT}").mkdir()  # killed before it was marked
    with RunDirectory(tmp_path / "other") as alive:
        write_run(tmp_path / "churn")
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"churn", file.name, unmarked.name, alive.path.parent.name, *stay}
    assert (unmarked / "photo.jpg").exists()


def test_a_directory_of_a_run_killed_between_two_renames_is_restored_by_the_next_run(tmp_path: Path) -> None:
    write_run(tmp_path / "churn", "first")
    draft = tmp_path / f".churn.tmp-{LEFT}"
    (draft / "new").mkdir(parents=True)
    (draft / MARKER).touch()
    (tmp_path / "churn").rename(draft / "old")
    with pytest.raises(ValueError, match="late"), RunDirectory(tmp_path / "other"):
        raise ValueError("late")
    assert (tmp_path / "churn" / "config.yaml").read_text().endswith("first")
    assert tree(tmp_path) == CHURN


def test_concurrent_runs_with_the_same_name_never_mix_and_never_leave_it_free(tmp_path: Path) -> None:
    final = tmp_path / "churn"
    write_run(final, "first")

    def replace_it(mark: str) -> None:
        for i in range(15):
            write_run(final, f"{mark}{i}")

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(replace_it, mark) for mark in "abcd"]
        while not all(future.done() for future in running):
            folder = os.open(final, os.O_RDONLY)  # the current directory
            with suppress(FileNotFoundError):  # it has just been replaced, and is being removed
                texts = [Path(f"/proc/self/fd/{folder}/{name}").read_text() for name in FILES]
                marks = {text.removeprefix(start) for text, start in zip(texts, FILES.values(), strict=True)}
                assert len(marks) == 1
            os.close(folder)
        for future in running:
            future.result()
    assert tree(tmp_path) == CHURN


NAMES = ["a", "b", "config.yaml", "metrics.json", "run.json", "z"]
LOOP = """
import sys
from pathlib import Path
from gpupipe.pipeline.records.rundir import RunDirectory
count = 0
while True:
    with RunDirectory(Path(sys.argv[1])) as run:
        for name in ("config.yaml", "metrics.json", "a", "b", "z"):
            (run.path / name).write_text(f"{count:08d}" * 2000)
    count += 1
    print(count, flush=True)
"""


def test_a_run_killed_at_any_time_leaves_a_complete_directory_or_none(tmp_path: Path) -> None:
    chance = random.Random(7)
    seen_whole = 0
    for _ in range(25):
        child = subprocess.Popen([sys.executable, "-c", LOOP, tmp_path / "churn"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 4)):
            child.stdout.readline()
        try:
            child.wait(timeout=chance.random() / 100)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        child.communicate()
        final = tmp_path / "churn"
        if final.exists():
            seen_whole += 1
            assert sorted(path.name for path in final.iterdir()) == NAMES
            texts = {path.read_text() for path in final.iterdir() if path.name != "run.json"}
            assert len(texts) == 1
            assert len(texts.pop()) == 16000
        leftovers = [path.name for path in tmp_path.iterdir() if path != final]
        assert all(re.fullmatch(r"\.churn\.tmp-[0-9a-f]{16}", name) for name in leftovers)
        assert final.exists() or not seen_whole  # once it exists, it exists at all times
    assert seen_whole > 0
    write_run(tmp_path / "churn")
    assert [path.name for path in tmp_path.iterdir()] == ["churn"]


def test_the_default_name_has_the_run_the_time_and_an_id_and_stays_in_the_output_folder() -> None:
    path = default_run_directory(Path("runs"), "churn")
    assert re.fullmatch(r"runs/churn-\d{8}-\d{6}-[0-9a-f]{6}", str(path))
    assert path != default_run_directory(Path("runs"), "churn")
    for name in ("../../etc", "a/b", "..", "", "mein Lauf"):
        assert default_run_directory(Path("runs"), name).parent == Path("runs")
