"""Kernels against their declarations and references, on CPU and GPU."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gpupipe_kernels
from gpupipe_kernels.catalog import device_loops, kernels
from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.interpreters.whole_program import program
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.proof.fuzz import compare
from tests.seeds import kernel_seed

NOT_WARM = """
import importlib, pkgutil
import gpupipe_kernels
from numba.core.caching import FunctionCache
from gpupipe_kernels.proof.warm_up import warm_all

list(warm_all())
for module in pkgutil.walk_packages(gpupipe_kernels.__path__, "gpupipe_kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if isinstance(getattr(value, "_cache", None), FunctionCache) and not value.signatures:
            print(f"{module.name}.{name}")
"""
SIMULATED = """
import json, sys, warnings
from unittest.mock import patch
import numpy as np
from gpupipe_kernels import launch
from gpupipe_kernels.catalog import kernels
from gpupipe_kernels.proof.fuzz import BLOCK, FuzzCase, compare, device_name, inputs_of, on_device
from tests import simulator
from tests.seeds import kernel_seed

simulator.install()

def stride(kernel):
    # As over more rows than a grid holds: the threads of the only block go on to the next rows.
    inputs = inputs_of(kernel, FuzzCase(seed, 2 * BLOCK + 1, "sample"))
    with patch.object(launch, "blocks", return_value=1):
        found = on_device(kernel)(*inputs)
    expected = kernel.reference(*inputs)
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, kernel.rtol, kernel.atol, err_msg=f"{kernel.name}, seed {seed}")

seed = kernel_seed()
assert device_name() == "simulator"
warnings.simplefilter("ignore")  # of integers that are to wrap
for name in sys.argv[1:]:
    kernel = kernels()[name]
    stride(kernel)
    print(json.dumps([name, compare(kernel, on_device(kernel), seed, BLOCK + 1).failure]))
"""
FUSED = """
import json, sys
import numpy as np
from gpupipe_kernels import launch

compile = launch.njit
launch.njit = lambda **options: compile(**options | {"fastmath": {"contract"}, "cache": False})  # before all others

@launch.formula
def difference(x, y, z):
    return x * y - z

x = np.float32(1 + 2**-12)
if difference(x, x, x * x) == 0:
    sys.exit("this processor has no fused multiply-add")

from gpupipe_kernels.catalog import kernels
from gpupipe_kernels.proof.fuzz import compare
from tests.seeds import kernel_seed

for name in sys.argv[1:]:
    kernel = kernels()[name]
    print(json.dumps([name, compare(kernel, kernel.cpu, kernel_seed(), n_rows=500).failure]))
"""
KERNELS = pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())


def is_of(argument: Argument, value: Any) -> bool:
    """Return whether a value has the declared dtype and dimensions."""
    if argument.shape:
        return isinstance(value, np.ndarray) and value.dtype == argument.dtype and value.ndim == len(argument.shape)
    return np.ndim(value) == 0 and np.can_cast(np.min_scalar_type(value), argument.dtype)


@KERNELS
def test_a_sample_matches_its_declaration(kernel: KernelDeclaration) -> None:
    for n in (0, 1, 50):
        inputs = kernel.sample(np.random.default_rng(n), n)
        assert len(inputs) == len(kernel.inputs)
        assert [a.name for a, value in zip(kernel.inputs, inputs, strict=True) if not is_of(a, value)] == []


@KERNELS
def test_both_processors_and_the_reference_take_the_same_inputs(kernel: KernelDeclaration) -> None:
    inputs = kernel.sample(np.random.default_rng(0), 5)
    for function in (kernel.reference, kernel.cpu, kernel.gpu):
        inspect.signature(function).bind(*inputs)


@KERNELS
def test_a_declaration_is_complete(kernel: KernelDeclaration) -> None:
    assert kernel.summary and kernel.nulls and kernel.device
    assert kernel.rtol >= 0 and kernel.atol >= 0
    assert kernel.signature.startswith(f"{kernel.name}(") and " -> " in kernel.signature
    assert all(np.dtype(argument.dtype) for argument in (*kernel.inputs, *kernel.outputs))


@KERNELS
def test_a_kernel_gives_the_same_twice_and_leaves_its_inputs_alone(kernel: KernelDeclaration) -> None:
    inputs = kernel.sample(np.random.default_rng(0), 500)
    before = [np.copy(value) for value in inputs]
    first, second = kernel.cpu(*inputs), kernel.cpu(*inputs)
    if not isinstance(first, tuple):
        first, second = (first,), (second,)
    for a, b in zip((*first, *before), (*second, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_device_loop_of_the_package_is_launched_by_a_declared_kernel() -> None:
    names = [module.name for module in pkgutil.walk_packages(gpupipe_kernels.__path__, "gpupipe_kernels.")]
    modules = [importlib.import_module(name) for name in names]
    found = {value.name for module in modules for value in vars(module).values() if isinstance(value, DeviceLoop)}
    assert len(found) > 10
    assert found - set(device_loops()) == set()


def test_every_device_loop_declares_its_argument_types() -> None:
    for name, loop in device_loops().items():
        for entry in loop.entries.values():
            assert len(entry.arguments) == len(inspect.signature(loop.function).parameters), name


def test_the_declared_program_has_every_instruction_but_calls_and_bearings() -> None:
    """Calls are user kernels, and no tolerance holds for the bearings of all points in the sample of distances."""
    assert set(program().instructions[:, 0].tolist()) == set(Opcode) - {Opcode.CALL, Opcode.BEARING}


def test_every_host_loop_of_the_package_is_compiled_ahead() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", NOT_WARM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@KERNELS
def test_a_kernel_agrees_with_its_reference_on_the_host(kernel: KernelDeclaration) -> None:
    assert compare(kernel, kernel.cpu, kernel_seed(), n_rows=2_000).failure == ""


def compared(script: str, names: list[str], **variables: str) -> dict[str, str]:
    """Return the failures of kernels in a new process, which prints an outcome for each."""
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "no fused multiply-add" in done.stderr:
        pytest.skip(done.stderr)
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert list(outcomes) == names, done.stderr
    return {name: failure for name, failure in outcomes.items() if failure}


def test_every_kernel_agrees_with_its_reference_in_the_simulator() -> None:
    assert compared(SIMULATED, list(kernels()), NUMBA_ENABLE_CUDASIM="1") == {}


@pytest.mark.nightly
def test_every_kernel_agrees_with_its_reference_if_products_are_fused_with_sums() -> None:
    """As compilers for a device do it."""
    floats = [name for name, kernel in kernels().items() if any(out.dtype[0] == "f" for out in kernel.outputs)]
    assert len(floats) > 15
    assert compared(FUSED, floats) == {}
