"""Search for compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe_kernels.toolchain import find_program


@pytest.mark.parametrize("path", [":", ".", "bin:", "{here}/../absent::."])
def test_a_program_of_the_current_folder_is_not_found_by_an_entry_of_path_that_means_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for program in (tmp_path / "nvcc", tmp_path / "bin" / "nvcc"):
        program.parent.mkdir(exist_ok=True)
        program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(here=tmp_path))
    assert find_program("nvcc") is None
    monkeypatch.setenv("PATH", f"{path}:{tmp_path}")
    assert find_program("nvcc") == str(tmp_path / "nvcc")
