"""Machine code of every device loop against a recorded table."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpupipe_kernels.device.binaries import ARCHITECTURES, BUILD
from gpupipe_kernels.proof.device_compilers import INSTALL, missing_compiler
from gpupipe_kernels.proof.machine_code import parse
from tools.machine_code.predictions import COUNTS
from tools.machine_code.record import OUT_OF_DATE, RECORD, REGISTER_MARGIN, differences

RECORDED = Path(__file__).with_name("machine_code.json")
PLANTED = """
import json
from numba import float32
from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.keyed.pairs import product
from gpupipe_kernels.launch import DeviceLoop, formula
from gpupipe_kernels.proof.machine_code import document

@formula
def third(x):
    return x * float32(0.25) + float32(1.0)

def plain(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = third(x[i])

def doubled(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = x[i] * 0.1 + 1.0

def stacked(x, out):
    own = cuda.local.array(64, float32)
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        own[i % 64] += x[i]
        out[i] = own[(i * 7) % 64]

def paired(x, out):
    i = cuda.grid(1)
    out[i] = product(x[i], x[i])[1]

def shared(x, out):
    block = cuda.shared.array(256, float32)
    i = cuda.grid(1)
    block[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    out[i] = block[255 - cuda.threadIdx.x]

loops = [DeviceLoop(f, "float32[::1]", "float32[::1]") for f in (plain, doubled, stacked, shared)]
loops.append(DeviceLoop(paired, "float64[::1]", "float64[::1]"))
print(json.dumps(document({loop.name: loop for loop in loops})))
"""
PTXAS_SAID = """
ptxas info    : 32 bytes gmem, 16 bytes cmem[4]
ptxas info    : Compiling entry function 'kernel' for 'sm_75'
ptxas info    : Function properties for kernel
    48 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 27 registers, used 1 barriers, 256 bytes smem, 464 bytes cmem[0], 8 bytes cmem[2]
"""
PTX = """
	.reg .f64 	%fd<5>;
	ld.param.f64 	%fd1, [kernel_param_0];
	@%p1 mul.rn.f64 	%fd2, %fd1, %fd1;
	// add.f64 in a comment
	cvt.rn.f32.f64 	%f1, %fd2;
	st.global.f32 	[%rd1], %f1;
"""


def run_python(*arguments: str) -> str:
    """Run a separate Python process, because a failed compilation can affect the next one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def compilers() -> None:
    """Skip without the compilers, or fail where they are required."""
    missing = missing_compiler()
    if missing and os.environ.get("CI"):
        pytest.fail(f"{missing}, and this is CI: {INSTALL}")
    if missing:
        pytest.skip(f"{missing}: {INSTALL}")


@pytest.mark.nightly
@pytest.mark.usefixtures("compilers")
def test_no_loop_is_worse_than_recorded_and_the_shipped_code_is_what_compilers_make_of_the_sources() -> None:
    measured = json.loads(run_python("-m", "tools.machine_code.record", "--shipped"))
    recorded = json.loads(RECORDED.read_text())
    libnvvm = [document["compilers"]["libnvvm"] for document in (recorded, measured)]
    if libnvvm[0] != libnvvm[1] and not os.environ.get("CI"):
        pytest.skip(f"recorded with another build of libnvvm ({libnvvm[0]}) than is installed here ({libnvvm[1]})")
    assert not os.environ.get("CI") or COUNTS in measured, f"no disassembler, and this is CI: {INSTALL}"
    assert measured[OUT_OF_DATE]["parts"] == [], f"the shipped machine code is out of date: run {BUILD}"
    found = differences(recorded, measured)
    assert found == [], "\n".join(
        [
            "\nthe machine code of kernels has changed:",
            *found,
            f"recorded with {recorded['compilers']}, compiled with {measured['compilers']}.",
            f"Look at each. Where it is meant to be so, record it: {RECORD}",
        ]
    )


@pytest.mark.usefixtures("compilers")
def test_the_compilers_words_are_understood(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    loops = json.loads(run_python(str(tmp_path / "planted.py")))["loops"]
    for architecture in ARCHITECTURES:
        plain, doubled, stacked, shared = (loops[n][architecture] for n in ("plain", "doubled", "stacked", "shared"))
        assert 8 <= plain["registers"] <= 64
        assert (plain["f64"], plain["stack"], plain["shared"], plain["barriers"]) == (0, 0, 0, 0)
        assert doubled["f64"] >= 4  # to float64, times, plus, back
        assert stacked["stack"] == 64 * 4
        assert (shared["shared"], shared["barriers"]) == (256 * 4, 1)
        assert plain["occupancy"] == 1.0
        assert loops["paired"][architecture]["f64"] == 5  # load, product, minus it, fused product and sum, store


@pytest.mark.usefixtures("compilers")
def test_a_loop_that_does_not_compile_is_named() -> None:
    code = PLANTED.replace("x[i] * 0.1 + 1.0", "x.no_such_thing")
    code = code.replace("print(json.dumps(", "try:\n    ").replace("})))", "})\nexcept ValueError as e:\n    print(e)")
    said = run_python("-c", code)
    assert said.startswith("doubled does not compile for a device: ")
    assert "no_such_thing" in said


def test_the_output_of_ptxas_is_parsed() -> None:
    code = parse(PTXAS_SAID, PTX)
    assert (code.registers, code.stack, code.spill_stores, code.spill_loads) == (27, 48, 40, 44)
    assert (code.shared, code.constant, code.barriers) == (256, 16 + 464 + 8, 1)


def test_instructions_in_float64_are_counted_and_nothing_else() -> None:
    assert parse(PTXAS_SAID, PTX).f64 == 3


def table(**changed: int) -> dict[str, Any]:
    figures = dict.fromkeys(("stack", "spill_stores", "spill_loads", "shared", "constant", "barriers", "f64"), 8)
    return {"loops": {"haversine": {"sm_90": {**figures, "registers": 40, **changed}}}}


@pytest.mark.parametrize("field", ["stack", "spill_stores", "spill_loads", "shared", "f64"])
def test_a_figure_that_grows_is_a_difference(field: str) -> None:
    (found,) = differences(table(), table(**{field: 9}))
    assert found.startswith("haversine on sm_90: 9 ")
    assert found.endswith("(recorded: 8)")
    assert differences(table(), table(**{field: 7})) == []


def test_registers_may_grow_by_the_margin_only() -> None:
    assert differences(table(), table(registers=40 + REGISTER_MARGIN)) == []
    (found,) = differences(table(), table(registers=41 + REGISTER_MARGIN))
    assert found.startswith(f"haversine on sm_90: {41 + REGISTER_MARGIN} registers: ")
    assert found.endswith("(recorded: 40)")


def test_a_kernel_that_takes_more_instructions_is_a_difference() -> None:
    counted = {n: {**table(), "instructions_of_128_rows": {"interpret_columns": {"sm_90": n}}} for n in (100, 102, 103)}
    assert differences(counted[100], counted[102]) == []
    (found,) = differences(counted[100], counted[103])
    assert found == "interpret_columns on sm_90: 103 machine instructions for 128 rows (recorded: 100)"
    assert differences(counted[100], table()) == []  # without a disassembler


def test_a_new_loop_and_a_loop_that_went_are_differences() -> None:
    more = copy.deepcopy(table())
    more["loops"]["bearing"] = more["loops"]["haversine"]
    assert differences(table(), more) == ["bearing: not recorded"]
    assert differences(more, table()) == ["bearing: recorded, but the loop no longer exists"]
