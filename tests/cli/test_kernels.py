"""``gpupipe kernels``, mostly in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupipe.cli import kernels as module
from gpupipe.cli import main
from gpupipe_kernels.device import binaries
from gpupipe_kernels.proof import device_compilers

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]
PASSED: dict[str, Any] = {"cases": 19, "max_error": 1e-7, "share": 0.25, "strides": "taken", "failure": ""}
FAILED = {**PASSED, "failure": "seed 3, 1 row, sample: row 0 is 0.0, not 2.0"}


def test_the_list_has_the_contract_of_every_kernel(gpupipe: Gpupipe) -> None:
    shown, as_json = gpupipe("kernels"), gpupipe("kernels", "--json")
    assert (shown.returncode, shown.stderr, as_json.returncode, as_json.stderr) == (0, "", 0, "")
    declared = json.loads(as_json.stdout)
    assert {"haversine", "log1p", "program", "text_hash"} <= {row["name"] for row in declared}
    for row in declared:
        assert row["signature"].startswith(f"{row['name']}(")
        assert f"{row['name']}(" in shown.stdout
        assert row["summary"] and row["nulls"] and row["device_loops"]


def test_a_kernel_is_tested_on_the_cpu_and_without_a_gpu_in_the_simulator(
    gpupipe_process: Gpupipe, monkeypatch: pytest.MonkeyPatch, hostile_folder: Path
) -> None:
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    command = ("kernels", "test", "lookup", "--rows", "300", "--seed", "4")
    result = gpupipe_process(*command, python=("-P",), cwd=hostile_folder)
    assert (result.returncode, result.stderr) == (0, "")
    head, line = result.stdout.splitlines()
    assert head == "no GPU (GPUPIPE_FORCE_CPU is set): device code runs in Numba's simulator"
    assert " ".join(line.split()) == "ok lookup cpu 11 cases, exact simulator 11 cases, exact, refuses strides"


def test_a_failure_names_its_case_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = [
        {"kernel": "lookup", "where": "simulator", "cpu": PASSED, "device": PASSED},
        {"kernel": "sine", "where": "simulator", "cpu": PASSED, "device": FAILED},
    ]
    seeds: list[int] = []

    def give(names: Any, rows: int, seed: int, simulated: bool) -> Any:
        seeds.append(seed)
        return iter(outcomes)

    monkeypatch.setattr(module, "_outcomes", give)
    assert main(["kernels", "test"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert seeds == [int(lines[1].removeprefix("inputs: --seed "))]
    assert lines[2].startswith("ok     lookup ")
    assert "cpu  19 cases, error 1.0e-07, 25% of tolerance" in lines[2]
    assert lines[3].startswith("FAILED sine ")
    assert lines[4] == "  device: seed 3, 1 row, sample: row 0 is 0.0, not 2.0"


def test_a_failed_comparison_is_an_error_with_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no memory')"]
    monkeypatch.setattr(module, "python_command", lambda *words: command)
    assert main(["kernels", "test"]) == 1
    assert "Internal error: no memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"), [("haversin", "did you mean 'haversine'?"), ("zzzzzz", "the kernels are arithmetic,")]
)
def test_a_missing_kernel_is_an_error_with_a_hint(name: str, hint: str, gpupipe: Gpupipe) -> None:
    result = gpupipe("kernels", "test", name)
    assert result.returncode == 2
    assert f"unknown kernel {name!r}" in result.stderr
    assert hint in result.stderr


def test_options_of_the_list_do_not_go_with_another_command(gpupipe: Gpupipe) -> None:
    result = gpupipe("kernels", "--json", "warm")
    assert result.returncode == 2
    assert "--json, --output and --machine-code cannot be combined with warm" in result.stderr


def test_compiled_code_is_reused_the_second_time(tmp_path: Path) -> None:
    script = tmp_path / "warm_two.py"
    script.write_text(
        "import sys\n"
        "from gpupipe.cli import main\n"
        "from gpupipe_kernels import catalog\n"
        "from gpupipe_kernels.reduce.numba import engine\n"
        "every = catalog.kernels()\n"
        "catalog.kernels = lambda: {'text_kinds': every['text_kinds']}\n"
        "from gpupipe_kernels.rows import warm_up\n"
        "from gpupipe_kernels.shapley import warm_up as shapley\n"
        "from gpupipe_kernels.text.numba import engine as texts\n"
        "engine.warm = warm_up.warm = shapley.warm = texts.warm_projection = lambda: None\n"
        "sys.exit(main(['kernels', 'warm']))\n"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "code"),
        "GPUPIPE_FORCE_CPU": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    runs = [
        subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = ([line.split() for line in run.stdout.splitlines()] for run in runs)
    assert first[4][0] == second[4][0] == "text_kinds"
    assert first[4][-2:] == ["compiled", "1"]
    assert second[4][-2:] == ["the", "cache"]
    assert first[5][:3] == ["compiled", "1", "loops"]
    assert second[5][:6] == ["all", "loops", "are", "in", "the", "cache"]
    assert str(tmp_path / "code") in first[5][-1]


def test_compiling_ahead_without_a_cache_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert main(["kernels", "warm"]) == 2
    shown = capsys.readouterr().err
    assert "the folder for compiled code is not writable" in shown
    assert "set NUMBA_CACHE_DIR" in shown


def test_machine_code_is_shown_for_every_architecture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = dict.fromkeys(("stack", "spill_stores", "spill_loads", "constant", "barriers", "f64"), 0)
    row = {a: {**code, "registers": 40, "shared": 1024, "occupancy": 0.75} for a in binaries.ARCHITECTURES}
    monkeypatch.setattr(module, "_machine_code", lambda: {"compilers": {}, "loops": {"interpret_rows": row}})
    assert main(["kernels", "--machine-code"]) == 0
    head, _, line, *_ = capsys.readouterr().out.splitlines()
    assert all(architecture in head for architecture in binaries.ARCHITECTURES)
    assert line.split()[:4] == ["interpret_rows", "40", "·", "75%"]


def test_machine_code_without_a_compiler_is_an_error_that_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_compilers, "missing_compiler", lambda: "NVIDIA's ptxas is not installed")
    assert main(["kernels", "--machine-code"]) == 2
    shown = capsys.readouterr().err
    assert "NVIDIA's ptxas is not installed" in shown
    assert device_compilers.INSTALL in shown
