"""Null for results that are not finite, in the host interpreters; `device_checks` covers the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpupipe_kernels.interpreters.numba import interpreter as numba_interpreter
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from tests.examples import examples
from tests.kernels.finite import EXACT, VALUES, every_finite_instruction, finite_or_not, in_float64

PROGRAM = every_finite_instruction()
ANY = st.floats(width=32) | st.sampled_from(np.array(VALUES, np.float32).tolist())
PAIRS = arrays(np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=ANY)
INTERPRETERS = pytest.mark.parametrize("interpreter", [numpy_interpreter, numba_interpreter])


def compute(interpreter: Any, x: np.ndarray) -> np.ndarray:
    out = np.full((x.shape[1], PROGRAM.n_columns), 99, np.float32, order="F")
    interpreter.run(PROGRAM, {"float32": x}, out)
    return out


def assert_signs_of_zero(got: np.ndarray, expected: np.ndarray) -> None:
    zero = EXACT & (expected == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@INTERPRETERS
@examples(150)
@given(x=PAIRS)
def test_a_result_is_that_of_float64_and_null_where_float32_does_not_hold_it(interpreter: Any, x: np.ndarray) -> None:
    got, expected = compute(interpreter, x), in_float64(x)
    np.testing.assert_array_equal(got[:, EXACT], expected[:, EXACT])
    assert_signs_of_zero(got, expected)
    assert not np.isinf(got).any()


@INTERPRETERS
def test_every_pair_of_extremes(interpreter: Any) -> None:
    x = finite_or_not()
    got, expected = compute(interpreter, x), in_float64(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37)
    assert_signs_of_zero(got, expected)


@given(x=PAIRS)
@examples(50)
def test_compiled_and_not_agree_on_what_is_null(x: np.ndarray) -> None:
    assume(not (np.abs(np.abs(x.astype(np.float64)) * 1e20 / np.finfo(np.float32).max - 1) < 1e-3).any())
    a, b = compute(numpy_interpreter, x), compute(numba_interpreter, x)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
