"""Cache of compiled code: removal of unused folders, and protection from other users."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupipe_kernels import code_cache
from gpupipe_kernels.code_cache import (
    OTHERS_KEPT,
    SECONDS_IN_USE,
    SECONDS_KEPT,
    cache_folder,
    can_keep,
    mark_kept,
)

HOUR, DAY = 3600, 86_400
Put = Callable[[str, float], Path]


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The parent of the folders of compiled code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    return tmp_path / "kernels"


@pytest.fixture
def put(kernels: Path) -> Put:
    """``put(name, age)`` makes a folder of compiled code that was last used `age` seconds ago."""

    def make(name: str, age: float) -> Path:
        folder = kernels / name
        code = folder / "reduce_18f446ed"
        code.mkdir(parents=True)
        (folder / "reduce-74e0f496ed38174f.kept").touch()
        for file in ("loops.count-107.py311.nbi", "loops.count-107.py311.1.nbc", "loops.fold-9.py311.nbi.tmp.0a1b"):
            (code / file).write_bytes(b"code")
        os.utime(folder, (time.time() - age,) * 2)
        return folder

    return make


def name(i: int) -> str:
    return f"{i:016x}"


def test_new_sources_leave_the_last_used_folders_of_others(put: Put) -> None:
    folders = [put(name(i), (5 - i) * DAY) for i in range(5)]
    assert can_keep()
    assert [folder.exists() for folder in folders] == [False] * (5 - OTHERS_KEPT) + [True] * OTHERS_KEPT
    assert cache_folder().is_dir()


def test_a_folder_unused_for_long_is_removed_even_if_it_is_the_only_one(put: Put) -> None:
    old, young = put(name(1), SECONDS_KEPT + HOUR), put(name(2), SECONDS_KEPT - HOUR)
    assert can_keep()
    assert not old.exists()
    assert young.exists()


def test_a_folder_that_may_be_in_use_stays_however_many_there_are(put: Put) -> None:
    folders = [put(name(i), SECONDS_IN_USE - 60 - i) for i in range(OTHERS_KEPT + 4)]
    assert can_keep()
    assert all(folder.exists() for folder in folders)


def test_nothing_is_removed_where_the_folder_is_not_new_and_its_use_is_noted(put: Put) -> None:
    mine = put(cache_folder().name, 2 * SECONDS_KEPT)
    others = [put(name(i), (40 + i) * DAY) for i in range(5)]
    assert can_keep()
    assert all(folder.exists() for folder in (mine, *others))
    assert time.time() - mine.stat().st_mtime < HOUR


def test_unrecognised_folders_are_not_removed(put: Put, kernels: Path, tmp_path: Path) -> None:
    old = 2 * SECONDS_KEPT
    elsewhere = tmp_path / "elsewhere"
    shutil.move(put(name(100), old), elsewhere)
    (kernels / name(101)).symlink_to(elsewhere, target_is_directory=True)
    (kernels / name(102)).write_text("a file")
    others = [put(other, old) for other in ("0123456789abcdeg", "0123456789abcde", "my_package_0123456789abcdef")]
    with_more = put(name(103), old)
    (with_more / "reduce_18f446ed" / "thesis.tex").write_text("years of work")
    os.utime(with_more, (0, 0))
    assert can_keep()
    stay = [elsewhere, kernels / name(101), kernels / name(102), *others, with_more]
    assert all(path.exists() for path in stay)
    assert len(list(elsewhere.rglob("*.*"))) == 4


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError, OSError])
def test_code_in_a_folder_that_cannot_be_removed_does_not_count_as_cached(
    put: Put, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    folders = [put(name(i), SECONDS_KEPT + DAY) for i in range(2)]

    def refuse(*_: object) -> None:
        raise error("another process")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    assert can_keep()
    assert all(folder.exists() for folder in folders)
    assert not [mark for folder in folders for mark in folder.glob("*.kept")]


def test_a_folder_that_another_process_removes_is_ignored(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [put(name(i), SECONDS_KEPT + DAY) for i in range(3)]
    is_ours = code_cache._is_ours

    def removed_after_the_look(folder: Path) -> bool:
        found = is_ours(folder)
        shutil.rmtree(folders[1], ignore_errors=True)
        return found

    monkeypatch.setattr(code_cache, "_is_ours", removed_after_the_look)
    assert can_keep()
    assert not any(folder.exists() for folder in folders)


def test_several_processes_that_begin_at_once_remove_each_folder_once(put: Put) -> None:
    folders = [put(name(i), SECONDS_KEPT + DAY) for i in range(40)]
    code = "from gpupipe_kernels.code_cache import can_keep; print(can_keep())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in running] == ["True"] * 4
    assert not any(folder.exists() for folder in folders)


def test_a_removed_folder_is_made_again_by_the_process_that_used_it(kernels: Path) -> None:
    """Numba creates its folder before it writes, so our marker may find it missing without an error."""
    code = (
        "import shutil, numpy as np\n"
        "from gpupipe_kernels import code_cache\n"
        "from gpupipe_kernels.launch import host_block\n"
        "@host_block\n"
        "def loop(x):\n"
        "    return x[0] + 1\n"
        "shutil.rmtree(code_cache.cache_folder())\n"
        "print(loop(np.arange(3.0)), len(list(code_cache.cache_folder().rglob('*.nbc'))))\n"
    )
    script = kernels.parent / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "1"]
    mark_kept("loop")
    assert code_cache.is_kept("loop")


def test_checking_the_cache_removes_nothing(put: Put) -> None:
    folders = [put(name(i), SECONDS_KEPT + DAY) for i in range(5)]
    assert not code_cache.is_kept("loop")
    assert all(folder.exists() for folder in folders)
    assert not cache_folder().exists()


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_in_a_world_writable_folder_each_user_gets_a_copy_of_the_shared_code(
    kernels: Path, tmp_path: Path, mode: int
) -> None:
    kernels.chmod(0o755)
    assert can_keep()
    mark_kept("loop")
    provided = cache_folder()
    (provided / "below").mkdir()
    (provided / "below" / "loop.nbc").write_bytes(b"code")
    provided.chmod(mode)
    code_cache._exposure.cache_clear()
    tmp_path.chmod(0o1777)
    own = cache_folder()
    assert own == tmp_path / f"user-{os.geteuid()}" / "kernels" / provided.name
    assert code_cache.is_kept("loop") is (mode == 0o755)
    assert can_keep() and code_cache.is_kept("loop") is (mode == 0o755)
    copied = sorted(path.name for path in own.rglob("*"))
    assert copied == (sorted(path.name for path in provided.rglob("*")) if mode == 0o755 else [])
    assert own.parents[1].stat().st_mode & 0o777 == 0o700
    assert [path.name for path in own.parent.iterdir()] == [own.name]


LOOP = """
import numpy as np
from gpupipe_kernels import code_cache
from gpupipe_kernels.launch import host_block
@host_block
def loop(x):
    return x[0] + 1
print(loop(np.arange(3.0)), sum(loop.stats.cache_hits.values()), code_cache.is_kept("loop"))
code_cache.mark_kept("loop")
print(code_cache.take_exposure())
print(code_cache.take_exposure())
"""


class Payload:
    """Creates a file when unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.made), "w")


def test_code_that_another_user_could_have_planted_is_not_loaded(kernels: Path, tmp_path: Path) -> None:
    """Numba's index is a pickle. The loop is compiled in memory, and the reason is reported once."""
    script = tmp_path / "script.py"
    script.write_text(LOOP)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def lines() -> list[str]:
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    kernels.chmod(0o700)
    assert lines() == ["1.0 0 False", "", ""]
    assert cache_folder().stat().st_mode & 0o777 == 0o700
    (index,) = kernels.rglob("*.nbi")
    made = tmp_path / "made"
    index.write_bytes(pickle.dumps(Payload(made)))
    kernels.chmod(0o775)
    assert lines() == ["1.0 0 False", f"other users can write to {kernels} (mode 775)", ""]
    assert not made.exists()
