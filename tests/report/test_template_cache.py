"""Compiled templates on disk: used, replaced when the source changes, and not trusted where others can write."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from gpupipe.report.template_cache import TemplateCache
from gpupipe_kernels.code_cache import cache_folder

NAME = "page.txt"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / NAME).write_text("Hello {{ name }}")
    return tmp_path


def render(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """Return the text of the template in a new environment, and how often it was compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder / "templates"), bytecode_cache=TemplateCache(), autoescape=True
    )
    n_compiled, compile_template = 0, environment.compile

    def counted(*arguments: object, **options: object) -> object:
        nonlocal n_compiled
        n_compiled += 1
        return compile_template(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(environment, "compile", counted)
    return environment.get_template(NAME).render(name="<Ada>"), n_compiled


def kept() -> list[Path]:
    return sorted(cache_folder().glob("template-*"))


def test_a_template_is_compiled_once_for_each_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert render(folder, monkeypatch) == ("Hello &lt;Ada&gt;", 1)
    assert render(folder, monkeypatch) == ("Hello &lt;Ada&gt;", 0)
    assert [path.suffix for path in kept()] == [".kept"]  # no draft is left
    (folder / "templates" / NAME).write_text("Bye {{ name }}")
    assert [render(folder, monkeypatch) for _ in range(2)] == [("Bye &lt;Ada&gt;", 1), ("Bye &lt;Ada&gt;", 0)]
    assert len(kept()) == 1


@pytest.mark.parametrize("damage", [b"", b"j2", b"no bytecode at all"])
def test_a_damaged_file_is_compiled_again(damage: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    render(folder, monkeypatch)
    kept()[0].write_bytes(damage)
    assert render(folder, monkeypatch) == ("Hello &lt;Ada&gt;", 1)
    assert render(folder, monkeypatch)[1] == 0


def test_code_is_not_read_from_a_folder_that_others_can_write_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    render(folder, monkeypatch)
    other = folder / "other"
    cache_folder().parent.parent.rename(other)
    (other / "kernels" / cache_folder().name).chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(other))
    assert len(kept()) == 1
    assert [render(folder, monkeypatch)[1] for _ in range(2)] == [1, 1]


def test_without_a_folder_templates_are_compiled_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").write_text("")
    assert [render(folder, monkeypatch)[1] for _ in range(2)] == [1, 1]
