"""Installation of every extra of pyproject.toml on every supported Python.

uv resolves them against the package index, as pip would on that Python: markers included, from wheels alone, without
installing anything. Downloads are metadata, no packages. The index is pip's (``index-url``), else PyPI. By hand, for
every extra by itself: ``uv pip compile pyproject.toml --extra NAME --python-version 3.11 --only-binary :all:``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # on 3.15, PyYAML and NumPy have no wheels yet (2026-11)
# What resolves together also resolves one by one, so these cover every extra. PyTorch's wheels on PyPI are built for
# CUDA 13 and exclude cuda12.
TOGETHER = (("dev",), ("cuda12",), ("cuda13", "torch"))
LITE = ("cuda12-lite", "cuda13-lite")  # lines of cuda12 and cuda13
LARGE = ("cudf", "cuml", "nvidia-cublas", "nvidia-cufft", "nvidia-cusolver", "nvidia-cusparse")
XGBOOST = {"xgboost", "xgboost-cpu", "xgboost-cu12", "xgboost-cu13"}
UNREACHABLE = ("error sending request", "Failed to fetch", "dns error", "client error (Connect)")


@cache
def index_url() -> str:
    """Return the main index that pip is configured with; ``""`` for PyPI."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^(?:global|user|site|install|:env:)\.index-url='(.+)'$", listed, re.MULTILINE)
    return os.environ.get("PIP_INDEX_URL") or (found[-1] if found else "")


def resolve(extras: tuple[str, ...], python: str, *options: str) -> dict[str, str]:
    """Return the distributions that would be installed, name to version; fail with the resolver's reason."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if uv is None:
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end("uv is not installed; the extra 'test-all' has it")
    command = [
        uv, "pip", "compile", "pyproject.toml", *(f"--extra={extra}" for extra in extras),
        "--python", sys.executable, "--python-version", python, "--python-platform", "x86_64-manylinux_2_28",
        "--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet", *options,
    ]  # fmt: skip
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    if index_url():
        environment.setdefault("UV_DEFAULT_INDEX", index_url())
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        if any(words in done.stderr for words in UNREACHABLE) and not os.environ.get("CI"):
            pytest.skip(f"the package index cannot be reached: {done.stderr.splitlines()[0]}")
        pytest.fail(f"gpupipe[{','.join(extras)}] cannot be installed on Python {python}:\n{done.stderr}")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.MULTILINE))


def within(extra: str) -> set[str]:
    """Return an extra and those that it includes by ``gpupipe[…]``."""
    included = re.findall(r"gpupipe\[(.+?)\]", " ".join(EXTRAS[extra]))
    return {extra}.union(*(within(name) for names in included for name in names.split(",")))


def test_every_extra_is_resolved() -> None:
    assert set().union(*(within(extra) for extras in TOGETHER for extra in extras)) == set(EXTRAS) - set(LITE)
    assert all(set(EXTRAS[extra]) <= set(EXTRAS[extra.removesuffix("-lite")]) for extra in LITE)


@pytest.mark.parametrize("extra", LITE)
def test_the_small_extras_have_cupy_numba_and_xgboost_alone(extra: str) -> None:
    found = resolve((extra,), "3.12")
    major = extra.removeprefix("cuda").removesuffix("-lite")
    assert {f"cupy-cuda{major}x", "numba-cuda", f"nvidia-nccl-cu{major}"} <= set(found)
    assert [name for name in found if name.startswith(LARGE)] == []
    assert len(XGBOOST & set(found)) == 1


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extras", TOGETHER[1:], ids="+".join)  # dev: with the tested versions, below
def test_extras_resolve(extras: tuple[str, ...], python: str) -> None:
    found = resolve(extras, python)
    assert len(XGBOOST & set(found)) == 1  # they install the same module
    for extra in extras:
        if major := extra.removeprefix("cuda") if extra.startswith("cuda") else "":
            other = {"12": "13", "13": "12"}[major]
            assert {f"cudf-cu{major}", f"cuml-cu{major}", f"nvidia-nccl-cu{major}"} <= set(found)
            assert f"nvidia-nccl-cu{other}" not in found  # XGBoost asks for the NCCL of the CUDA it is built for


@cache
def pinned() -> dict[str, str]:
    """Return the versions of constraints.txt, the tested ones."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))


@pytest.mark.parametrize("python", PYTHONS)
def test_the_tested_versions_can_be_installed_on_every_python(python: str) -> None:
    found = resolve(("dev",), python, "--constraint", "constraints.txt")
    assert {name: version for name, version in found.items() if name in pinned()}.items() <= pinned().items()
    assert len(XGBOOST & set(found)) == 1


def test_every_direct_requirement_has_a_tested_version() -> None:
    required = [*PROJECT["dependencies"], *(line for extra in ("cpu", "torch", "cluster") for line in EXTRAS[extra])]
    names = {re.match(r"[\w.-]+", line)[0] for line in required}  # type: ignore[index]
    assert names <= set(pinned())


@pytest.mark.needs("torch")  # with all extras
@pytest.mark.skipif(not os.environ.get("CI"), reason="only CI installs the versions of constraints.txt")
def test_the_tested_versions_are_those_that_are_tested() -> None:
    found = metadata.distributions(path=[sysconfig.get_path("purelib")])  # without indirect requirements
    installed = {dist.metadata["Name"].lower().replace("_", "-"): dist.version for dist in found}
    both = pinned().keys() & installed.keys()
    assert len(both) > 80
    assert {name: installed[name].partition("+")[0] for name in both} == {name: pinned()[name] for name in both}
