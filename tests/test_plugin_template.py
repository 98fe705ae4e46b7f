"""The template of a plug-in package is built, installed and run, and its model needs the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "docs" / "plugin_template"
pytestmark = [pytest.mark.process, pytest.mark.slow]
Python = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed template, built without a network."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(TEMPLATE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target", str(folder / "site")]
    subprocess.run([*pip, "install", *options, str(folder / "source")], check=True)
    return folder / "site"


def python(*arguments: object, cwd: Path, packages: Path | None = None) -> CompletedProcess[str]:
    """Run Python with gpupipe, and with installed packages if they are given."""
    path = [ROOT, ROOT / "kernels", *([packages] if packages else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.nightly
def test_the_template_is_tested_and_its_model_needs_it(site: Path, tmp_path: Path) -> None:
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", "tests"]
    done = python(*tests, cwd=site.parent / "source", packages=site)
    assert done.returncode == 0, done.stdout
    (run,) = (tmp_path / "tests").glob("*0/run")  # pytest also links to it
    new = tmp_path / "new.csv"
    new.write_text("calls_day,calls_night,plan\n1,12,plus\n")
    predict = ["-m", "gpupipe", "predict", run, new, "--force", "-o", tmp_path / "p.csv"]
    done = python(*predict, cwd=tmp_path, packages=site)
    assert done.returncode == 0 and (tmp_path / "p.csv").read_text().splitlines()[1].startswith('"yes",'), done.stderr
    without = python(*predict, cwd=tmp_path)
    assert without.returncode == 2
    assert "gpupipe-template==0.1.0" in without.stderr  # the command that installs it
