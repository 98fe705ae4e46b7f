"""``gpupipe doctor`` and the check of ``rapids doctor``, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends.probe import probe_gpu
from gpupipe.cli import main
from gpupipe.doctor import Finding, rapids
from gpupipe.doctor.cpu import LIBRARIES
from gpupipe.doctor.distributions import read_distributions
from gpupipe.doctor.driver import read_host_environment
from gpupipe.errors import DeviceError

ROOT = Path(__file__).parents[2]
HIDING = (
    "GPUPIPE_FORCE_CPU",
    "CUDA_VISIBLE_DEVICES",
    "GPUPIPE_THREADS",
    "LD_LIBRARY_PATH",
    "NUMBA_ENABLE_CUDASIM",
    "OMP_NUM_THREADS",
)
HEAVY = {"numpy", "pandas", "pyarrow", "sklearn", "scipy", "numba", "torch", "cudf", "cupy", "cuml", "dask", "xgboost"}
AS_RAPIDS_DOES = """
from importlib.metadata import entry_points
(found,) = [entry for entry in entry_points(group="rapids_doctor_check") if entry.name == "gpupipe"]
check = found.load()
print(check.__doc__.strip().split("\\n")[0])
try:
    check(verbose=True, gpu_info=None)
except Exception as error:
    print(type(error).__name__, error)
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(site: Any) -> Run:
    """Run Python with the folder of packages before those of this environment."""

    def call(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if name not in HIDING}
        path = os.pathsep.join(map(str, (site.folder, ROOT, ROOT / "kernels")))
        return subprocess.run(
            [sys.executable, *arguments],
            env={**clean, "PYTHONPATH": path, **environment},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call


@pytest.fixture
def broken(site: Any) -> None:
    """Wheels of two CUDA versions, two CuPy, packages that abort and fail; the remaining ones import at once."""
    site.add_gpupipe()
    site.add("cudf-cu12", "26.10.0")
    site.module("cudf", "import os; os.abort()")
    site.add("cupy-cuda13x", "14.2.0")
    site.add("cupy-cuda12x", "14.2.0")
    site.module("cupy", "raise ImportError('libnvrtc.so.13')")
    site.module("xgboost", "def build_info(): return {'USE_CUDA': False}")
    for name in ("numba_cuda", *LIBRARIES):
        site.module(name, "")
    (site.folder / "numba" / "cuda.py").touch()


def test_a_machine_without_a_gpu_passes(site: Any, run: Run, hostile_folder: Path) -> None:
    if probe_gpu().obstacle != "no_driver" or read_host_environment().nvidia_sign:
        pytest.skip("this machine has an NVIDIA GPU, or its driver")
    if read_distributions().has_gpu_packages():
        pytest.skip("GPU packages are installed here")
    site.add_gpupipe()
    result = run("-P", "-X", "importtime", "-m", "gpupipe", "doctor", "--json", cwd=hostile_folder)
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads(result.stdout)
    assert document["exit_code"] == 0
    assert [finding for finding in document["findings"] if finding["fix"] or finding["level"] != "ok"] == []
    first, last = document["findings"][0], document["findings"][-1]
    assert first["found"].startswith("no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded")
    assert last["check"] == "--device auto"
    assert last["found"].startswith("selects the CPU: no NVIDIA driver")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert imported & HEAVY == set()


def test_a_broken_machine_gets_each_fix_and_exit_code_4(run: Run, broken: None, driver: str) -> None:
    result = run("-m", "gpupipe", "doctor", LD_LIBRARY_PATH=driver, FAKE_COUNT="2")
    assert (result.returncode, result.stderr) == (4, "")
    said = " ".join(result.stdout.split())
    for words in (
        "ok NVIDIA driver 580.95.05, supports CUDA up to 13.0",
        "ok GPU 1 NVIDIA Fake 1, compute capability 9.0, 16.0 of 32.0 GiB free",
        "ok CUDA initialized",
        "to do: pip uninstall -y cudf-cu12 cupy-cuda12x cupy-cuda13x && pip install 'gpupipe[cuda13]'",
        "to do: pip uninstall -y cupy-cuda13x cupy-cuda12x && pip install 'cupy-cuda13x!=14.1.0,>=14.0.1'",
        "cudf cudf-cu12 26.10.0; import failed: crashed (SIGABRT)",
        "to do: pip install --force-reinstall 'cudf-cu12==26.10.0'",
        "import failed: ImportError: libnvrtc.so.13",
        "ok CPU path complete",
    ):
        assert words in said


def test_rapids_doctor_finds_the_check_which_raises_what_is_broken(run: Run, broken: None, driver: str) -> None:
    result = run("-c", AS_RAPIDS_DOES, LD_LIBRARY_PATH=driver, FAKE_INIT="18")
    assert (result.returncode, result.stderr) == (0, "")
    first, second, *_ = result.stdout.splitlines()
    assert first == "Check the driver, GPUs, wheels and imports with gpupipe's doctor."
    assert second.startswith("DeviceError NVIDIA driver: the driver answers nvmlInit_v2 with error 18")
    assert "to do: pip install --force-reinstall 'cudf-cu12==26.10.0'" in result.stdout


def test_the_check_of_rapids_is_silent_if_all_is_well_and_warns_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    findings = [Finding("ok", "memory", "enough")]
    monkeypatch.setattr(rapids, "diagnose", lambda: findings)
    assert rapids.check() is None
    assert rapids.check(verbose=True, gpu_info=object()) == "memory: enough"
    findings.append(Finding("warning", "pandas", "too new", "pip install 'pandas<3.1'"))
    with pytest.warns(UserWarning, match="pandas: too new\n  to do: pip install 'pandas<3.1'"):
        assert rapids.check() is None
    findings.append(Finding("error", "cudf", "import fails"))
    with pytest.raises(DeviceError, match=r"^cudf: import fails$"):
        rapids.check()


@pytest.mark.parametrize(
    ("levels", "code", "verdict"),
    [
        (["ok"], 0, "nothing is broken"),
        (["ok", "warning"], 0, "nothing is broken, 1 with a warning"),
        (["error", "warning", "error"], 4, "2 broken, 1 with a warning: fix the first one first"),
    ],
)
def test_the_last_line_agrees_with_the_exit_code(
    levels: list[Any], code: int, verdict: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = [Finding(level, "a [check]", "said \x1b[31mred") for level in levels]
    monkeypatch.setattr("gpupipe.doctor.diagnose", lambda: findings)
    assert main(["doctor"]) == code
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == verdict
    assert "a [check]" in shown
    assert "\\x1b[31mred" in shown
