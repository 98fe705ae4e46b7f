"""Resolution of relative paths in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.config.document import build_tree
from gpupipe.config.paths import resolve_path, resolve_paths


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``configs`` with two files; the working directory is an empty sibling."""
    (tmp_path / "work").mkdir()
    (tmp_path / "configs" / "data").mkdir(parents=True)
    (tmp_path / "configs" / "data" / "a.csv").write_text("x\n1\n")
    (tmp_path / "configs" / "hooks.py").write_text("def clean(frame): return frame\n")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "configs"


def test_a_file_next_to_the_configuration_is_found(folder: Path) -> None:
    assert resolve_path("data/a.csv", folder) == str(folder / "data/a.csv")
    assert resolve_path("data", folder) == str(folder / "data")


def test_the_working_directory_takes_precedence(folder: Path) -> None:
    Path("data").mkdir()
    Path("data/a.csv").touch()
    assert resolve_path("data/a.csv", folder) == "data/a.csv"


def test_a_glob_and_a_function_of_a_file_are_found_too(folder: Path) -> None:
    assert resolve_path("data/*.csv", folder) == str(folder / "data/*.csv")
    assert resolve_path("hooks.py:clean", folder) == str(folder / "hooks.py:clean")


@pytest.mark.parametrize("path", ["nowhere.csv", "s3://bucket/a.csv", "/data/a.csv", "~/a.csv", "data/*.parquet"])
def test_other_paths_are_unchanged(folder: Path, path: str) -> None:
    assert resolve_path(path, folder) == path


def test_the_paths_of_every_section_are_resolved_and_nothing_else(folder: Path) -> None:
    root = build_tree(
        {
            "name": "data",
            "source": {"path": ["data/a.csv", "nowhere.csv"], "prepare": "hooks.py:clean", "target": "data"},
            "tables": {"other": {"path": "data"}},
            "features": [{"kernel": {"use": "hooks.py:clean"}}],
        },
        "settings",
    )
    resolve_paths(root, folder)
    settings = root.plain()
    assert settings["source"]["path"] == [str(folder / "data/a.csv"), "nowhere.csv"]
    assert settings["source"]["prepare"] == str(folder / "hooks.py:clean")
    assert settings["tables"]["other"]["path"] == str(folder / "data")
    assert settings["features"][0]["kernel"]["use"] == str(folder / "hooks.py:clean")
    assert settings["name"] == settings["source"]["target"] == "data"
