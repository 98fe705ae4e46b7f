"""Every kernel of the catalogue on the device, against its float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe_kernels.catalog import kernels
from gpupipe_kernels.device import arrays
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from gpupipe_kernels.proof.fuzz import compare, device_name, on_device
from tests.seeds import kernel_seed

ROWS = 5_000  # the references of keyed kernels are loops in Python


def test_the_simulator_is_off() -> None:
    assert device_name() != "simulator"


@pytest.mark.parametrize("name", list(kernels()))
def test_a_kernel_is_its_reference(name: str) -> None:
    kernel = kernels()[name]
    outcome = compare(kernel, on_device(kernel), kernel_seed(), ROWS)
    assert outcome.failure == ""
    assert outcome.share <= 1


@pytest.mark.parametrize("order", ["F", "C"])
def test_a_launch_matches_the_numpy_interpreter(order: Any) -> None:
    from benchmarks.device.twenty_columns import table, twenty_columns
    from gpupipe_kernels.interpreters.cuda.interpreter import DeviceProgram, run

    program, blocks, n_rows = twenty_columns(), table(100_003), 100_003
    expected = np.empty((n_rows, program.n_columns), np.float32, order="F")
    numpy_interpreter.run(program, blocks, expected)
    out = arrays.empty((n_rows, program.n_columns), np.float32, order)
    there = {name: arrays.upload(block) for name, block in blocks.items()}
    run(DeviceProgram(program), there, out)
    np.testing.assert_allclose(arrays.download(out), expected, rtol=2e-6, atol=1e-6)
