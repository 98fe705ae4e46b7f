"""Output files: atomic, with exact permissions, and never through a symbolic link."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from gpupipe.errors import ConfigError
from gpupipe.files import policy
from gpupipe.files.file import replace_file, require_writable_file, write_text
from gpupipe.files.policy import CAN_REPLACE, MODE, set_mode


@contextmanager
def having(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_private_file_has_its_mode_whatever_the_umask_and_the_replaced_file(
    tmp_path: Path, mask: int, mode: int
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    old.chmod(0o644)
    with umask(mask), having(MODE, mode):
        write_text(old, "text")
        write_text(new, "text")
        write_text(tmp_path / "plan.json", "{}", is_private=False)
    assert (mode_of(old), mode_of(new), mode_of(tmp_path / "plan.json")) == (mode, mode, 0o666 & ~mask)
    assert old.read_text() == "text"


def test_a_draft_is_private_from_its_first_byte_and_has_another_name_each_time(tmp_path: Path) -> None:
    names = set()
    with umask(0), having(MODE, 0o666):
        for _ in range(3):
            with replace_file(tmp_path / "scores.csv"):
                (draft,) = (path for path in tmp_path.iterdir() if path.name != "scores.csv")
                assert mode_of(draft) == 0o600
                names.add(draft.name)
    assert len(names) == 3 and all(len(name) == len(".draft-") + 16 for name in names)


@pytest.mark.parametrize("can_replace", [True, False])
def test_a_link_that_is_put_in_place_after_the_check_is_not_followed(tmp_path: Path, can_replace: bool) -> None:
    output, victim = tmp_path / "scores.csv", tmp_path / "victim"
    victim.write_text("precious")
    with having(CAN_REPLACE, can_replace):
        require_writable_file(output)
        if can_replace:
            with replace_file(output) as file:
                output.symlink_to(victim)
                file.write(b"new")
            assert not output.is_symlink() and output.read_text() == "new"
        else:
            with pytest.raises(ConfigError, match="already exists") as error, replace_file(output) as file:
                output.symlink_to(victim)
                file.write(b"new")
            (kept,) = tmp_path.glob("scores.csv.new-*")
            assert kept.read_text() == "new" and str(kept) in error.value.fix and output.is_symlink()
    assert victim.read_text() == "precious"


def test_a_link_with_the_name_of_the_draft_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda n: "0" * 2 * n)
    victim = tmp_path / "victim"
    for content in ("precious", None):  # a file, and a link to nothing
        (tmp_path / ".draft-0000000000000000").unlink(missing_ok=True)
        (tmp_path / ".draft-0000000000000000").symlink_to(victim)
        victim.unlink(missing_ok=True)
        if content is not None:
            victim.write_text(content)
        with pytest.raises(FileExistsError), replace_file(tmp_path / "scores.csv") as file:
            file.write(b"new")
        assert victim.exists() is (content is not None) and (content is None or victim.read_text() == content)


def test_a_file_that_appears_meanwhile_is_kept_and_so_is_the_output(tmp_path: Path) -> None:
    output = tmp_path / "scores.csv"
    with having(CAN_REPLACE, False):
        with pytest.raises(ConfigError, match=r"scores\.csv already exists"), replace_file(output) as file:
            output.write_text("of another process")
            file.write(b"mine")
        write_text(tmp_path / "free.csv", "text")
    (kept,) = tmp_path.glob("scores.csv.new-*")
    assert (output.read_text(), kept.read_text(), mode_of(kept)) == ("of another process", "mine", 0o600)
    assert {path.name for path in tmp_path.iterdir()} == {"scores.csv", kept.name, "free.csv"}


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    output = tmp_path / "scores.csv"
    output.write_text("old")
    with pytest.raises(ValueError, match="late"), replace_file(output) as file:
        file.write(b"half")
        raise ValueError("late")
    assert output.read_text() == "old" and len([*tmp_path.iterdir()]) == 1


def test_a_file_system_without_hard_links_or_permissions_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    policy._warn.cache_clear()
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "chmod", refuse)
    with having(CAN_REPLACE, False), caplog.at_level(logging.WARNING):
        for name in ("a.csv", "b.csv"):
            write_text(tmp_path / name, name)
            assert (tmp_path / name).read_text() == name
    assert [record.message for record in caplog.records] == [
        "the file system has no permissions: others may be able to read the output"
    ]
    policy._warn.cache_clear()


def test_other_errors_of_permissions_are_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        set_mode(tmp_path / "absent", 0o600)


TAKEN = {
    "file": "file already exists",
    "folder": "found a folder",
    "pipe": "found a device or a pipe",
    "/dev/null": "found a device or a pipe",
    "to_pipe": "found a device or a pipe",
    "to_file": "symbolic link",
    "to_folder": "symbolic link",
    "to_nothing": "symbolic link",
    "to_link": "symbolic link",
    "loop": "symbolic link",
    "file/x": "no such folder",
    "absent/x": "no such folder",
}


@pytest.mark.parametrize("can_replace", [True, False])
@pytest.mark.parametrize("name", TAKEN)
def test_a_taken_path_is_refused_before_any_work(tmp_path: Path, name: str, can_replace: bool) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    links = {"pipe": "pipe", "file": "file", "folder": "folder", "nothing": "absent", "link": "to_file"}
    for link, target in links.items():
        (tmp_path / f"to_{link}").symlink_to(target)
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.iterdir())
    with having(CAN_REPLACE, can_replace):
        if name == "file" and can_replace:
            require_writable_file(tmp_path / name)
        else:
            with pytest.raises(ConfigError, match=TAKEN[name]) as error:
                require_writable_file(tmp_path / name)
            assert ("--force" in error.value.fix) is (name == "file")
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "file").read_text() == "precious"
