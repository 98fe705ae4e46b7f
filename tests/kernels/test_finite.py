"""Null for results that are not finite, in the NumPy interpreter; `device_checks` covers the device."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpupipe_kernels.interpreters.numpy import interpreter
from tests.examples import examples
from tests.kernels.finite import EXACT, VALUES, every_finite_instruction, finite_or_not, in_float64

PROGRAM = every_finite_instruction()
ANY = st.floats(width=32) | st.sampled_from(np.array(VALUES, np.float32).tolist())
PAIRS = arrays(np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=ANY)


def compute(x: np.ndarray) -> np.ndarray:
    out = np.full((x.shape[1], PROGRAM.n_columns), 99, np.float32, order="F")
    interpreter.run(PROGRAM, {"float32": x}, out)
    return out


def assert_signs_of_zero(got: np.ndarray, expected: np.ndarray) -> None:
    zero = EXACT & (expected == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@examples(150)
@given(x=PAIRS)
def test_a_result_is_that_of_float64_and_null_where_float32_does_not_hold_it(x: np.ndarray) -> None:
    got, expected = compute(x), in_float64(x)
    np.testing.assert_array_equal(got[:, EXACT], expected[:, EXACT])
    assert_signs_of_zero(got, expected)
    assert not np.isinf(got).any()


def test_every_pair_of_extremes() -> None:
    x = finite_or_not()
    got, expected = compute(x), in_float64(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37)
    assert_signs_of_zero(got, expected)
