"""What users import from gpupipe. A name is added or removed here on purpose, with a line in the changelog."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpupipe

PUBLIC = [
    "Batches",
    "Config",
    "FeatureProgram",
    "Model",
    "Pipeline",
    "Run",
    "TensorBatch",
    "UntrustedModel",
    "__version__",
    "from_dlpack",
    "kernel",
    "load_config",
    "load_model",
    "load_run",
    "run",
    "to_jax",
    "to_tensorflow",
    "to_torch",
]
HEAVY = {"numpy", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "pydantic", "fsspec", "xgboost", "skops"}
HEAVY |= {"torch", "dask", "distributed"}


def test_the_public_names_are_these_and_sorted() -> None:
    assert list(gpupipe.__all__) == PUBLIC == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(gpupipe, name) is not None


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_every_public_name_explains_itself(name: str) -> None:
    assert getattr(gpupipe, name).__doc__


def test_dir_shows_the_public_names_to_completion() -> None:
    assert set(PUBLIC) <= set(dir(gpupipe))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        gpupipe.no_such_name  # noqa: B018


def test_the_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert gpupipe.__version__ == project["version"]


def test_importing_gpupipe_imports_nothing_heavy() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; import gpupipe"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "gpupipe" in imported
    assert not imported & HEAVY
