"""Docstring examples: they run, and every public name has one."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import gpupipe

ROOT = Path(__file__).parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
OPTIONAL = {
    "gpupipe.tensors.exchange.to_jax": "jax",
    "gpupipe.tensors.exchange.to_tensorflow": "tensorflow",
}
"""Examples that need a library which the other examples do not."""


def _modules() -> Iterator[str]:
    """Yield the modules with examples, found without importing them; those of the ops have a separate test."""
    for folder, package in ((ROOT, "gpupipe"), (ROOT / "kernels", "gpupipe_kernels")):
        for path in sorted((folder / package).rglob("*.py")):
            if "features/ops" not in path.as_posix() and ">>> " in path.read_text(encoding="utf8"):
                yield ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def _public() -> list[str]:
    names: list[str] = vars(gpupipe)["__all__"]
    return [name for name in names if not name.startswith("__") and gpupipe._HOMES[name] != "gpupipe.errors"]


def _failures(found: list[doctest.DocTest]) -> str:
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for examples in found:
        runner.run(examples, out=report.append)
    return "".join(report)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples that write relative paths write to a temporary folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", list(_modules()))
def test_the_examples_of_a_module_are_right(name: str) -> None:
    found = doctest.DocTestFinder().find(import_module(name))
    failures = _failures([examples for examples in found if examples.name not in OPTIONAL])
    assert not failures, failures


@pytest.mark.parametrize("name", OPTIONAL)
def test_the_examples_of_an_optional_library_are_right(name: str) -> None:
    pytest.importorskip(OPTIONAL[name])
    module, _, function = name.rpartition(".")
    failures = _failures(doctest.DocTestFinder().find(getattr(import_module(module), function), name))
    assert not failures, failures


@pytest.mark.parametrize("name", _public())
def test_every_public_name_has_an_example(name: str) -> None:
    found = doctest.DocTestFinder(recurse=False).find(getattr(gpupipe, name), name)
    executed = [e for examples in found for e in examples.examples if doctest.SKIP not in e.options]
    assert executed, f"gpupipe.{name} has no example that is executed"
