"""Example kernel of docs/guide/kernels.md: on the host, in the simulator, and compiled for real GPUs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe_kernels.proof import device_compilers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "kernels.md"
IN_THE_SIMULATOR = """
from saturation import KERNELS
from gpupipe_kernels.proof.fuzz import compare, on_device

(kernel,) = KERNELS
outcome = compare(kernel, on_device(kernel), seed=0, n_rows=600)
print(outcome.failure or outcome.cases)
"""
FOR_REAL_GPUS = """
import json
from saturation import LOOP
from gpupipe_kernels.proof.machine_code import document

print(json.dumps(document({LOOP.name: LOOP})))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the two files of the page."""
    _, kernel, test = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "saturation.py").write_text(kernel)
    (tmp_path / "test_saturation.py").write_text(test)
    return tmp_path


def run_python(folder: Path, *arguments: str, **environment: str) -> str:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    everything = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=everything, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_example_pass(folder: Path) -> None:
    said = run_python(folder, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_saturation.py")
    assert "2 passed" in said


def test_the_example_agrees_with_its_reference_in_the_simulator(folder: Path) -> None:
    assert int(run_python(folder, "-c", IN_THE_SIMULATOR, NUMBA_ENABLE_CUDASIM="1")) == 11


def test_the_example_becomes_machine_code_without_spills_or_float64(folder: Path) -> None:
    if missing := device_compilers.missing_compiler():
        assert not os.environ.get("CI"), missing
        pytest.skip(missing)
    table = json.loads(run_python(folder, "-c", FOR_REAL_GPUS))["loops"]["saturation"]
    for code in table.values():
        assert (code["spill_stores"], code["stack"], code["f64"]) == (0, 0, 0)


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:tests/|keyed/|text/|reduce/)?[\w/]*(?:\.py|\.json|/))`", PAGE.read_text())
    folders = (ROOT / "kernels" / "gpupipe_kernels", ROOT)
    others = [name for name in named if "saturation" not in name]
    assert len(others) > 10
    assert [name for name in others if not any((folder / name).exists() for folder in folders)] == []
