"""Detection of wrong kernels by the comparison with their references, without false alarms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpupipe_kernels import catalog
from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.proof import fuzz
from gpupipe_kernels.proof.fuzz import (
    BLOCK,
    FuzzCase,
    Mismatch,
    compare,
    difference,
    extremes,
    inputs_of,
)

NAT = -(2**63)


def twice(x: Any) -> Any:
    return x * np.float32(2.0)


def kernel(**changes: Any) -> KernelDeclaration:
    """A kernel that needs no compiler."""
    right = KernelDeclaration(
        name="twice",
        summary="twice the number",
        inputs=(Argument("x", "float32", null=np.nan),),
        outputs=(Argument("y", "float32"),),
        nulls="null",
        rtol=1e-6,
        atol=0.0,
        reference=lambda x: x.astype(np.float64) * 2,
        cpu=twice,
        gpu=twice,
        sample=lambda rng, n: (rng.normal(size=n).astype(np.float32),),
        device=(),
    )
    return replace(right, **changes)


def failure_of(run: Callable[..., Any], **changes: Any) -> str:
    return compare(kernel(**changes), run, seed=7, n_rows=600).failure


def test_a_right_kernel_passes_at_every_size_and_variation() -> None:
    outcome = compare(kernel(), twice, seed=0, n_rows=600)
    assert (outcome.failure, outcome.strides, outcome.max_error) == ("", "taken", 0.0)
    assert outcome.cases == 6 + 2 * 2 + 1


def test_sizes_around_a_block_and_strides_are_tried() -> None:
    seen = []

    def remember(x: Any) -> Any:
        seen.append((len(x), x.flags.c_contiguous))
        return twice(x)

    compare(kernel(), remember, seed=0, n_rows=600)
    assert {n for n, _ in seen} == {0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 600}
    assert (600, False) in seen


def test_a_wrong_value_in_one_row_is_found_and_the_smallest_case_named() -> None:
    def wrong(x: Any) -> Any:
        out = twice(x)
        out[5:6] += 1.0
        return out

    assert failure_of(wrong).startswith("seed 7, 6 rows, sample: row 5: ")


def test_a_bound_that_stops_one_row_early_is_found() -> None:
    def short(x: Any) -> Any:
        out = np.zeros_like(x)
        out[: len(x) - 1] = twice(x)[: len(x) - 1]
        return out

    assert failure_of(short).startswith("seed 7, 1 row, sample: row 0: expected ")


def test_a_null_that_is_lost_is_found() -> None:
    assert failure_of(lambda x: np.nan_to_num(twice(x), nan=0.0, posinf=np.inf, neginf=-np.inf)).startswith(
        "seed 7, 1 row, all null: row 0: expected nan, got 0.0"
    )


def test_an_infinity_that_is_lost_is_found() -> None:
    assert "extremes" in failure_of(lambda x: np.clip(twice(x), -3e38, 3e38))


def test_an_error_larger_than_the_tolerance_is_found_and_a_smaller_one_is_measured() -> None:
    assert "sample" in failure_of(lambda x: twice(x) * np.float32(1 + 4e-6))
    outcome = compare(kernel(rtol=1e-5), lambda x: twice(x) * np.float32(1 + 4e-6), seed=0, n_rows=600)
    assert outcome.failure == ""
    assert 0.3 < outcome.share < 0.5


def test_another_dtype_or_shape_is_found() -> None:
    assert "expected y to be float32 (0,), got float64 (0,)" in failure_of(lambda x: twice(x).astype(np.float64))
    assert "expected y to be float32 (0,), got float32 (1,)" in failure_of(lambda x: np.append(twice(x), np.float32(0)))


def test_an_exception_is_a_failure_with_its_words() -> None:
    assert failure_of(lambda x: 1 // 0).endswith("ZeroDivisionError: integer division or modulo by zero")


def test_a_kernel_may_refuse_strides_and_nothing_else() -> None:
    def refuse(x: Any) -> Any:
        if not x.flags.c_contiguous:
            raise ValueError("expected contiguous rows")
        return twice(x)

    outcome = compare(kernel(), refuse, seed=0, n_rows=600)
    assert (outcome.failure, outcome.strides) == ("", "refused")

    def broken(x: Any) -> Any:
        raise ValueError("at all")

    assert "ValueError: at all" in failure_of(broken)


def test_a_kernel_that_ignores_strides_is_found() -> None:
    def ignore(x: Any) -> Any:
        base = x if x.base is None else x.base
        return twice(base[: len(x)])

    assert "strided" in failure_of(ignore)


def test_the_same_seed_gives_the_same_inputs() -> None:
    case = FuzzCase(3, 100, "extremes")
    np.testing.assert_array_equal(inputs_of(kernel(), case), inputs_of(kernel(), case))


@pytest.mark.parametrize(
    ("argument", "some"),
    [
        (Argument("x", "float32", null=np.nan), [np.inf, -np.inf, -0.0, np.float32(3.4028235e38), np.float32(1e-45)]),
        (Argument("x", "float64", null=np.nan), [1.7976931348623157e308, 5e-324]),
        (Argument("x", "int64", null=NAT), [NAT, NAT + 1, -1, 0, 2**63 - 1]),
        (Argument("x", "int16", null=0, least=0, greatest=6), [0, 1, 6]),
    ],
)
def test_extremes_include_null_zeros_and_limits(argument: Argument, some: list[float]) -> None:
    values = extremes(argument)
    assert values.dtype == argument.dtype
    assert set(np.array(some, argument.dtype).tolist()) <= set(values.tolist())
    assert np.isnan(values).any() == (argument.dtype[0] == "f")
    assert all(argument.least <= value <= argument.greatest for value in values.tolist() if value == value)


def test_whole_numbers_are_compared_as_whole_numbers() -> None:
    with pytest.raises(Mismatch, match=f"row 0: expected {2**62}, got {2**62 + 1}"):
        difference(np.array([2**62]), np.array([2**62 + 1]), 0.0, 0.0)


def test_a_failure_is_in_the_line_and_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = kernel(name="wrong", cpu=lambda x: x)
    monkeypatch.setattr(catalog, "kernels", lambda: {"twice": kernel(), "wrong": wrong})
    monkeypatch.setattr(fuzz, "device_name", lambda: "simulator")
    monkeypatch.setattr(fuzz, "on_device", lambda kernel: kernel.gpu)
    assert fuzz.main(["twice", "--rows=9"]) == 0
    assert fuzz.main(["--rows=9", "--seed=5"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kernel"] for line in lines] == ["twice", "twice", "wrong"]
    assert lines[2]["cpu"]["failure"].startswith("seed 5, 1 row, sample: row 0: ")
    assert lines[2]["device"]["failure"] == ""
