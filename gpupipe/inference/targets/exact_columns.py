"""Splits of trees on `log1p` and `yeo_johnson`, whose last digits differ between runtimes, as splits of their operands.

The functions do not decrease: f(x) is at most t if x is at most s, the largest float32 number with f(s) at most t. A
binary search finds s in the digits of this machine, which are those of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.reference import in_float32, yeo_johnson
from gpupipe_kernels.rows.lowering import FINITE
from gpupipe_kernels.rows.trees import ordered_codes

if TYPE_CHECKING:
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.lowering import LoweredInstruction, LoweredProgram

# Functions that do not decrease, as `gpupipe_kernels.rows.row_program` computes them; SCALE with a positive factor.
FUNCTIONS: dict[int, Callable[[HostArray, Sequence[float]], HostArray]] = {
    Opcode.LOG1P: lambda x, _: np.log1p(x),
    FINITE: lambda x, _: in_float32(x),
    Opcode.FILL: lambda x, params: np.where(np.isnan(x), np.float32(params[0]), x),
    Opcode.CLIP: lambda x, params: np.clip(x, np.float32(params[0]), np.float32(params[1])),
    Opcode.SCALE: lambda x, params: in_float32(x * np.float32(params[0]) + np.float32(params[1])),
    Opcode.YEO_JOHNSON: lambda x, params: in_float32(yeo_johnson(x.astype(np.float64), params[0])),
}
LARGEST = np.finfo(np.float32).max
FIRST, LAST = (int(code) for code in ordered_codes(np.array([-LARGEST, LARGEST], np.float32)))


class ExactColumn(NamedTuple):
    """A column of the feature matrix that is a function of a column with equal digits in all runtimes."""

    operand: int  # a value register of the program
    image: int  # a value register: NaN where the operand has no image; before the first FILL
    steps: tuple[LoweredInstruction, ...]

    def of(self, x: HostArray, fills: bool = True) -> HostArray:
        """Return the column for values of the operand, float32; with NaN where FILL would fill, unless it `fills`."""
        with np.errstate(all="ignore"):
            for step in self.steps:
                if fills or step.op != Opcode.FILL:
                    x = FUNCTIONS[step.op](x, step.params)
        return x

    def limits(self, limits: HostArray) -> HostArray:
        """Return the largest operand whose image is at most each limit; -inf if there is none."""
        wanted, place = np.unique(limits, return_inverse=True)
        low, high = np.full(len(wanted), FIRST - 1), np.full(len(wanted), LAST)
        while (low < high).any():
            middle = (low + high + 1) // 2
            x = _numbers(middle)
            image = self.of(x, fills=False)
            is_left = np.where(np.isnan(image), x < 0, image <= wanted)  # without an image: out of range on that side
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle - 1)
        found: HostArray = np.where(low < FIRST, -np.inf, _numbers(np.maximum(low, FIRST)).astype(np.float64))[place]
        return found


def _numbers(codes: HostArray) -> HostArray:
    found: HostArray = ordered_codes(codes.astype(np.int32).view(np.float32)).view(np.float32)  # its own inverse
    return found


def exact_columns(lowered: LoweredProgram) -> dict[int, ExactColumn]:
    """Return the columns of the matrix whose digits differ between runtimes and that can be split by an operand."""
    made = {each.dst: each for each in lowered.instructions if not each.writes_index}
    found = {}
    for column, register in enumerate(lowered.outputs.tolist()):
        steps: list[LoweredInstruction] = []
        while (each := made[register]).op in FUNCTIONS and not (each.op == Opcode.SCALE and each.params[0] <= 0):
            steps.insert(0, each)
            register = each.operands[0]
        while steps and steps[0].op not in (Opcode.LOG1P, Opcode.YEO_JOHNSON):
            del steps[0]  # equal in all runtimes
        if steps:
            filled = next((each.operands[0] for each in steps if each.op == Opcode.FILL), steps[-1].dst)
            found[column] = ExactColumn(steps[0].operands[0], filled, tuple(steps))
    return found


class NumberSplits(NamedTuple):
    """Splits by numbers: the column, the largest number that goes to the left, and whether missing values do."""

    column: HostArray
    limit: HostArray
    missing_left: HostArray

    def by_operand(self, exact: Mapping[int, ExactColumn], place: Mapping[int, int]) -> NumberSplits:
        """Return the splits with those of `exact` columns moved to the operands, in the columns `place`."""
        column, limit, missing_left = (np.array(values) for values in self)
        for own, each in exact.items():
            if (at := self.column == own).any():
                missing = each.of(np.full(1, np.nan, np.float32))[0]
                if not np.isnan(missing):
                    missing_left[at] = missing <= limit[at]
                limit[at] = each.limits(limit[at])
                column[at] = place[own]
        return NumberSplits(column, limit, missing_left)
