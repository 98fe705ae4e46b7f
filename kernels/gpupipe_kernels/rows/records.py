"""Records: the encoded cells of rows, one after the other in memory.

A record has the float64 cells of a row, then the float32, int64 and int32 cells. Each kind is aligned, and a record has
a multiple of 8 bytes, so the same memory is a flat array of each type: compiled code sees four types of arrays for any
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.typing import HostArray

SINGLE, DOUBLE, TIME, CODE = range(4)
"""Kinds of cells: float32, float64, int64 and int32."""

KIND_OF_BLOCK = {
    block_id("int8"): CODE, block_id("int16"): CODE, block_id("int32"): CODE, block_id("float32"): SINGLE,
    block_id("float64"): DOUBLE, block_id("int64"): TIME,
}  # fmt: skip


class Cells(NamedTuple):
    """The cells of n rows, by kind; each array has shape (n, columns of the kind).

    Attributes
    ----------
    single, double : array of float32, array of float64
        NaN is null.
    times : array of int64
        Microseconds since 1970; NAT is null.
    codes : array of int32
        Codes of levels.
    """

    single: HostArray
    double: HostArray
    times: HostArray
    codes: HostArray


@dataclass(frozen=True)
class RecordLayout:
    """Number of columns of each kind.

    Examples
    --------
    >>> layout = RecordLayout(n_double=1, n_single=3, n_times=0, n_codes=1)
    >>> layout.dtype.itemsize, layout.starts
    (32, (2, 0, 3, 6))
    """

    n_double: int
    n_single: int
    n_times: int
    n_codes: int

    @property
    def gap(self) -> int:
        """Bytes between the float32 and the int64 cells."""
        return 4 * (self.n_single % 2)

    @property
    def end(self) -> int:
        """Bytes after the int32 cells; a record without columns has 8."""
        return 4 * (self.n_codes % 2) or 8 * (self.n_double + self.n_single + self.n_times + self.n_codes == 0)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Structured type of a record, with the fields of `Cells`."""
        sizes = {"double": self.n_double, "single": self.n_single, "times": self.n_times, "codes": self.n_codes}
        kinds = {"double": "=f8", "single": "=f4", "times": "=i8", "codes": "=i4"}
        times = 8 * self.n_double + 4 * self.n_single + self.gap
        codes = times + 8 * self.n_times
        fields: Any = {
            "names": list(sizes),
            "formats": [(kinds[name], (n,)) for name, n in sizes.items()],
            "offsets": [0, 8 * self.n_double, times, codes],
            "itemsize": codes + 4 * self.n_codes + self.end,
        }
        dtype: np.dtype[Any] = np.dtype(fields)
        return dtype

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """Position of the first cell of each kind in a flat array of its type, in the order of the kinds."""
        fields: Any = self.dtype.fields
        single, double, times, codes = (fields[name][1] for name in ("single", "double", "times", "codes"))
        return single // 4, double // 8, times // 8, codes // 4


def cells_of(records: HostArray) -> Cells:
    """Return the cells of records by kind, as views."""
    return Cells(records["single"], records["double"], records["times"], records["codes"])


def flat_cells(records: HostArray) -> Cells:
    """Return contiguous records as a flat array of each type, without a copy."""
    return Cells(records.view("=f4"), records.view("=f8"), records.view("=i8"), records.view("=i4"))


Records = npt.NDArray[Any]
"""A structured array of `RecordLayout.dtype`, shape (n,), contiguous and read-only."""
