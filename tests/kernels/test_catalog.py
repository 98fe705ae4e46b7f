"""Every kernel is what its declaration says, and agrees with its reference on both processors."""

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
from gpupipe_kernels.contract import Argument, Kernel
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.opcodes import Op
from gpupipe_kernels.whole_program import program

NOT_WARM = """
import importlib, pkgutil
import gpupipe_kernels
from numba.core.caching import FunctionCache
from gpupipe_kernels.warm import warm_all

list(warm_all())
for module in pkgutil.walk_packages(gpupipe_kernels.__path__, "gpupipe_kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if isinstance(getattr(value, "_cache", None), FunctionCache) and not value.signatures:
            print(f"{module.name}.{name}")
"""
KERNELS = pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())


def is_of(argument: Argument, value: Any) -> bool:
    """Whether a value is of the dtype and the dimensions that are declared."""
    if argument.shape:
        return isinstance(value, np.ndarray) and value.dtype == argument.dtype and value.ndim == len(argument.shape)
    return np.ndim(value) == 0 and np.can_cast(np.min_scalar_type(value), argument.dtype)


@KERNELS
def test_a_sample_is_what_the_declaration_says(kernel: Kernel) -> None:
    for n in (0, 1, 50):
        inputs = kernel.sample(np.random.default_rng(n), n)
        assert len(inputs) == len(kernel.inputs)
        assert [a.name for a, value in zip(kernel.inputs, inputs, strict=True) if not is_of(a, value)] == []


@KERNELS
def test_both_processors_and_the_reference_take_the_same_inputs(kernel: Kernel) -> None:
    inputs = kernel.sample(np.random.default_rng(0), 5)
    for function in (kernel.reference, kernel.cpu, kernel.gpu):
        inspect.signature(function).bind(*inputs)


@KERNELS
def test_a_declaration_is_complete(kernel: Kernel) -> None:
    assert kernel.summary and kernel.nulls and kernel.device
    assert kernel.rtol >= 0 and kernel.atol >= 0
    assert kernel.signature.startswith(f"{kernel.name}(") and " -> " in kernel.signature
    assert all(np.dtype(argument.dtype) for argument in (*kernel.inputs, *kernel.outputs))


@KERNELS
def test_a_kernel_gives_the_same_twice_and_leaves_its_inputs_alone(kernel: Kernel) -> None:
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


def test_every_device_loop_says_what_it_is_compiled_for() -> None:
    for name, loop in device_loops().items():
        assert len(loop.arguments) == len(inspect.signature(loop.function).parameters), name


def test_the_declared_program_has_every_instruction_but_calls_and_bearings() -> None:
    """Calls are of users; no one tolerance holds for the bearings of all points that distances are declared for."""
    assert set(program().instructions[:, 0].tolist()) == set(Op) - {Op.CALL, Op.BEARING}


def test_every_host_loop_of_the_package_is_compiled_ahead() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", NOT_WARM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("half", [0, 1])  # for two cores: the simulator takes a minute of one for all
def test_every_kernel_agrees_with_its_reference_on_the_cpu_and_in_the_simulator(half: int) -> None:
    names = list(kernels())[half::2]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "gpupipe_kernels.fuzz", *names, "--rows=600"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = {line["kernel"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert list(lines) == names, done.stderr
    failures = [f"{n}, {side}: {line[side]['failure']}" for n, line in lines.items() for side in ("cpu", "device")]
    assert [failure for failure in failures if not failure.endswith(": ")] == []
    assert {line["where"] for line in lines.values()} == {"simulator"}
