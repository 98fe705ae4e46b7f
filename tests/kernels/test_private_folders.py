"""Folders that only their owner can change."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupipe_kernels.private_folders import find_exposed_file, find_exposure, make_private

OTHER_USER = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


def test_folders_are_made_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "c")
    make_private(tmp_path / "a" / "b" / "c")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(OSError):
            make_private(tmp_path / path)


@pytest.mark.parametrize(
    ("mode", "of_the_folder", "of_its_parent"),
    [(0o700, "", ""), (0o755, "", ""), (0o775, "775", "775"), (0o757, "757", "757"), (0o1777, "1777", "")],
)
def test_a_folder_or_parent_that_others_can_write_to_is_named(
    tmp_path: Path, mode: int, of_the_folder: str, of_its_parent: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(mode)
    said = f"other users can write to {tmp_path / 'folder'} (mode "
    for path, shown in ((tmp_path / "folder", of_the_folder), (tmp_path / "folder" / "new" / "er", of_its_parent)):
        assert find_exposure(path) == (f"{said}{shown})" if shown else "")


def test_links_are_followed_and_the_folders_that_hold_them_count(tmp_path: Path) -> None:
    for name in ("real", "open", "closed"):
        (tmp_path / name).mkdir(0o700)
    (tmp_path / "open" / "link").symlink_to(tmp_path / "real")
    (tmp_path / "closed" / "link").symlink_to("../open/link")
    (tmp_path / "loop").symlink_to("loop")
    assert find_exposure(tmp_path / "closed" / "link" / "x") == ""
    (tmp_path / "open").chmod(0o777)
    assert str(tmp_path / "open") in find_exposure(tmp_path / "closed" / "link" / "x")
    assert find_exposure(tmp_path / "real") == ""
    with pytest.raises(OSError, match="too many"):
        find_exposure(tmp_path / "loop")


def test_files_that_others_can_write_to_matter_where_others_can_enter(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir(0o755)
    (tmp_path / "below" / "code.nbi").touch()
    (tmp_path / "below" / "code.nbi").chmod(0o664)
    tmp_path.chmod(0o700)
    assert find_exposed_file(tmp_path) == ""
    tmp_path.chmod(0o755)
    assert "code.nbi (mode 664)" in find_exposed_file(tmp_path)
    (tmp_path / "below" / "code.nbi").unlink()
    (tmp_path / "below" / "code.nbi").symlink_to("elsewhere")
    assert find_exposed_file(tmp_path) == f"{tmp_path / 'below' / 'code.nbi'} is a symbolic link"


@as_root
def test_a_folder_of_another_user_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "folder"
    make_private(folder)
    (folder / "code.nbi").touch()
    for path in (tmp_path / "parent", folder):
        os.chown(path, OTHER_USER, -1)
        assert find_exposure(folder) == f"{path} belongs to user {OTHER_USER}, not to user 0"
        os.chown(path, 0, -1)
    os.chown(folder / "code.nbi", OTHER_USER, -1)
    assert find_exposure(folder) == ""
    assert find_exposed_file(folder) == f"{folder / 'code.nbi'} belongs to user {OTHER_USER}, not to user 0"


@as_root
def test_root_is_trusted_and_another_users_link_is_not(tmp_path: Path) -> None:
    """In a folder such as /tmp, the owner of a link controls its target."""
    code = "import sys; from pathlib import Path; from gpupipe_kernels.private_folders import find_exposure as f\n"
    code += "print([f(Path(path)) for path in sys.argv[1:]])"
    make_private(tmp_path / "roots")
    for path in (*tmp_path.parents[:2], tmp_path, tmp_path / "roots"):
        path.chmod(0o755)
    (tmp_path / "link").symlink_to("roots")
    os.chown(tmp_path / "link", OTHER_USER, -1, follow_symlinks=False)
    kernels = Path(__file__).parents[2] / "kernels"
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "roots", tmp_path / "link"],
        env={"PYTHONPATH": str(kernels)}, capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert found.stdout.strip() == str(["", f"{tmp_path / 'link'} belongs to user {OTHER_USER}, not to user 0"])


def test_the_private_group_of_a_user_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems with umask 002 rely on private groups: a user's primary group of the same name, without other members."""
    (tmp_path / "folder").mkdir()  # 0775
    user = SimpleNamespace(pw_name="ada", pw_gid=os.getegid())
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    owner = os.geteuid() or 1000  # what belongs to root is trusted
    for uid, name, members, is_private in (
        (owner, "ada", [], True), (owner, "ada", ["ada"], True), (owner, "ada", ["ada", "eve"], False),
        (owner, "staff", [], False), (0, "ada", [], False),
    ):  # fmt: skip
        group = SimpleNamespace(gr_name=name, gr_mem=members)
        monkeypatch.setattr(grp, "getgrgid", lambda gid, group=group: group)
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert (find_exposure(tmp_path / "folder") == "") is is_private
