"""The public names of gpupipe."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import gpupipe
from gpupipe import errors

ROOT = Path(__file__).parent.parent
PUBLIC: list[str] = vars(gpupipe)["__all__"]
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, gpupipe.GpupipeError)]
HEAVY = {"numpy", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "pydantic", "fsspec", "xgboost", "skops"}
HEAVY |= {"torch", "dask", "distributed"}


def test_type_checkers_see_the_names_that_the_interpreter_sees() -> None:
    tree = ast.parse((ROOT / "gpupipe" / "__init__.py").read_text())
    imports = [node for block in tree.body if isinstance(block, ast.If) for node in block.body]
    seen: dict[str | None, str | None] = {}
    for node in imports:
        assert isinstance(node, ast.ImportFrom)
        seen |= {alias.asname: node.module for alias in node.names}
    assert seen == gpupipe._HOMES
    assert {*seen, "__version__"} == set(PUBLIC)


def test_every_error_is_public() -> None:
    assert {kind.__name__ for kind in ERRORS} | {"PredictionWarning"} <= set(PUBLIC)


def test_the_guide_lists_the_exit_code_of_every_error() -> None:
    page = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| (.+?) \|", page, re.MULTILINE)
    documented = {name: code for code, names in rows for name in re.findall(r"`(\w+Error)`", names)}
    expected = {kind.__name__: str(kind.exit_code) for kind in ERRORS} | {"StoppedError": "130, 143"}
    assert documented == expected


@pytest.mark.parametrize(
    "error",
    [
        gpupipe.EncodingError("not utf8", "utf8", "cp1252", where="a.csv", fix="state it"),
        gpupipe.FieldCountError("line 3 has 4 fields", 3, 4, 5, where="a.csv", fix="correct it"),
        gpupipe.QuoteError("never closed", 7, where="a.csv", fix="close it"),
        gpupipe.ConfigError("2 errors", problems=["a: x", "b: y"]),
        gpupipe.StoppedError("stopped", 15, fix="--resume"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_attributes_in_another_process(error: gpupipe.GpupipeError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(gpupipe, name) is not None


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert getattr(gpupipe, name).__doc__


def test_dir_shows_the_public_names_to_completion() -> None:
    assert set(PUBLIC) <= set(dir(gpupipe))


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        gpupipe.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_the_citation_and_the_changelog_have_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert (citation["version"], newest[1]) == (gpupipe.__version__, gpupipe.__version__)


def test_importing_gpupipe_imports_nothing_heavy() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; import gpupipe"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "gpupipe" in imported
    assert not imported & HEAVY
