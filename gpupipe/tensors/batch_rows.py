"""Packed rows of a batch: each mini-batch is a single gather."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpupipe.errors import ConfigError
from gpupipe.tensors.bags import IdBags
from gpupipe.tensors.batch import ARRAYS, TensorBatch
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover_obstacles import on_device
from gpupipe.tensors.prefetch import Tensors
from gpupipe.typing import HostArray

CELL = 4  # bytes

InMemory: TypeAlias = "HostArray | Tensor"
"""A NumPy array on the host, or a PyTorch tensor on a device."""
RowIndex: TypeAlias = "HostArray | Tensor | slice"
"""Row numbers, in the memory that holds the rows, or a slice of rows."""


@dataclass(frozen=True)
class BatchCells:
    """The position of one array of a batch in packed rows."""

    dtype: Any  # torch.dtype
    # `first`, `width`: first item and number of items, counted in items of the dtype; a width of 0 is an array of shape
    # (n,)
    first: int
    width: int

    def of(self, rows: Tensor) -> Tensor:
        """Return a view of this array in rows of float32 cells."""
        cells = rows if self.dtype is torch.float32 else rows.view(self.dtype)
        return cells[:, self.first : self.first + self.width] if self.width else cells[:, self.first]


@dataclass(frozen=True)
class BatchRows:
    """The arrays of a batch as rows that mini-batches are taken from."""

    parts: Tensors  # the packed rows only, or one tensor per array; each has one row per row of the batch
    names: tuple[str, ...]
    cells: tuple[BatchCells, ...] = ()  # the position of each array in packed rows; empty if the parts are the arrays
    read_only: bool = False  # whether the memory of a part is immutable to its owner

    @property
    def nbytes(self) -> int:
        """Size of all parts in bytes."""
        return sum(part.numel() * part.element_size() for part in self.parts)

    @property
    def on_host(self) -> bool:
        """True if the rows are in host memory."""
        return bool(self.parts[0].device.type == "cpu")

    def to(self, device: Any) -> BatchRows:
        """Return the rows in the memory of another device."""
        return replace(self, parts=tuple(part.to(device) for part in self.parts), read_only=False)

    def cut(self, taken: Tensors) -> dict[str, Tensor]:
        """Return the arrays of rows taken from the parts, by name, as views."""
        arrays = (cells.of(taken[0]) for cells in self.cells) if self.cells else taken
        return dict(zip(self.names, arrays, strict=True))

    def take(self, index: RowIndex) -> Tensors:
        """Return the rows of an index as copies, or those of a slice as views (copies if the memory is read-only)."""
        if isinstance(index, slice):
            return tuple(part[index].clone() if self.read_only else part[index] for part in self.parts)
        if not self.on_host:
            return tuple(part.index_select(0, index) for part in self.parts)
        made = tuple(torch.empty((len(index), *part.shape[1:]), dtype=part.dtype) for part in self.parts)
        return self.take_into(made, index)

    def take_into(self, buffers: Tensors, index: RowIndex) -> Tensors:
        """Write rows, which must be in host memory, to the first rows of `buffers`, and return those."""
        n = index.stop - index.start if isinstance(index, slice) else len(index)
        filled = tuple(buffer[:n] for buffer in buffers)
        for part, target in zip(self.parts, filled, strict=True):
            if isinstance(index, slice):
                target.copy_(part[index])
            else:
                # 10 % faster than PyTorch's index_select, which is single-threaded here too. "clip" avoids a copy, and
                # no index is out of range.
                np.take(part.numpy(), index, axis=0, out=target.numpy(), mode="clip")
        return filled


def arrays_of(batch: TensorBatch[Any]) -> dict[str, InMemory]:
    """Return the arrays of a batch by name: NumPy arrays on the host, PyTorch tensors on a device.

    Raise ConfigError if an array has the wrong number of dimensions or no real numbers, or if only some arrays are on a
    device; DataError if an array is not stored as one array.
    """
    found = {name: as_array(array) for name in ARRAYS if (array := getattr(batch, name)) is not None}
    if len({isinstance(array, np.ndarray) for array in found.values()}) > 1:
        raise ConfigError("some arrays are on the host, others on a device", fix="move all of them to one device")
    for name, array in found.items():
        allowed = {"features": (2,), "ids": (2,), "target": (1, 2)}.get(name, (1,))
        if array.ndim not in allowed or not _is_real(array):
            raise ConfigError(
                f"{name}: expected real numbers in {' or '.join(f'{n}-D' for n in allowed)}; got "
                f"dtype {array.dtype} and shape {tuple(array.shape)}",
                fix="reshape or convert it",
            )
    return found


def bag_tensors(bags: IdBags[Any]) -> IdBags[Tensor]:
    """Return bags as int32 tensors over the same memory, or over a copy of read-only memory."""

    def to_tensor(array: Any) -> Tensor:
        array = as_array(array)
        return _tensor(array.copy() if _is_read_only(array) else array, torch.int32)

    return bags.map(to_tensor)


def take_bags(bags: IdBags[Tensor], index: RowIndex) -> IdBags[Tensor]:
    """Return the bags of the rows of an index as copies, or those of a slice with a view of their ids."""
    if isinstance(index, slice):
        ends = bags.offsets[index.start : index.stop + 1]
        return IdBags(bags.ids[int(ends[0]) : int(ends[-1])], ends - ends[0])
    rows = torch.as_tensor(index, device=bags.offsets.device)
    starts = bags.offsets[rows]
    lengths = bags.offsets[rows + 1] - starts
    offsets = torch.zeros(len(rows) + 1, dtype=torch.int32, device=rows.device)
    offsets[1:] = lengths.cumsum(0)
    n_items = int(offsets[-1])
    shifts = torch.repeat_interleave(starts - offsets[:-1], lengths, output_size=n_items)
    return IdBags(bags.ids[shifts + torch.arange(n_items, device=rows.device)], offsets)


def to_rows(arrays: Mapping[str, InMemory], *, packed: bool) -> BatchRows:
    """Return the arrays as rows, without a copy where possible.

    `arrays` are the result of `arrays_of`; those with another dtype than that of a mini-batch are converted. `packed`
    is for random access: unless all arrays are row-major with the final dtype, they are copied once into rows of 4-byte
    cells, so that a gather touches as few cache lines as possible.
    """
    if packed and not all(_is_row_major(name, array) for name, array in arrays.items()):
        return _pack(arrays)
    parts = tuple(_tensor(array, _dtype(name, array)) for name, array in arrays.items())
    return BatchRows(parts, tuple(arrays), read_only=any(_is_read_only(array) for array in arrays.values()))


def packed_bytes(arrays: Mapping[str, InMemory]) -> int:
    """Return the size of the packed rows of these arrays in bytes."""
    return CELL * _layout(arrays)[1] * len(arrays["features"])


def as_array(array: Any) -> InMemory:
    """Return an array of any library as a NumPy array (host) or PyTorch tensor (device) over the same memory."""
    if isinstance(array, torch.Tensor):
        array = array.detach()
        if array.is_cuda:
            return array
    array = from_dlpack(array)
    return to_torch(array) if on_device(array) else array


def _is_real(array: InMemory) -> bool:
    return array.dtype.kind in "fiub" if isinstance(array, np.ndarray) else not array.dtype.is_complex


def _dtype(name: str, array: InMemory) -> Any:
    """Return the dtype of the array in a mini-batch."""
    if name == "target":
        fraction = array.dtype.kind == "f" if isinstance(array, np.ndarray) else array.dtype.is_floating_point
        return torch.float32 if fraction else torch.int64
    return torch.int32 if name == "ids" else torch.float32


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(str(dtype).removeprefix("torch."))


def _is_row_major(name: str, array: InMemory) -> bool:
    dtype = _dtype(name, array)
    if isinstance(array, np.ndarray):
        return bool(array.dtype == _numpy_dtype(dtype) and array.flags.c_contiguous and array.flags.aligned)
    return bool(array.dtype == dtype and array.is_contiguous())


def _is_read_only(array: InMemory) -> bool:
    return isinstance(array, np.ndarray) and not array.flags.writeable


def _tensor(array: InMemory, dtype: Any) -> Tensor:
    """Return a tensor over the array, or over a copy if tensors lack its dtype or strides."""
    if not isinstance(array, np.ndarray):
        return array.to(dtype)
    array = np.require(array, _numpy_dtype(dtype), ["A"])
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    with warnings.catch_warnings():  # PyTorch warns about read-only memory, which `BatchRows` never writes to
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _layout(arrays: Mapping[str, InMemory]) -> tuple[dict[str, BatchCells], int]:
    """Return the position of each array in packed rows, and the number of cells per row.

    Class codes take 8 bytes: they come first, and rows have an even number of cells, so that the codes are aligned.
    """
    cells, end = {}, 0
    for name in sorted(arrays, key=lambda name: name != "target"):
        array, dtype = arrays[name], _dtype(name, arrays[name])
        width = array.shape[1] if array.ndim == 2 else 0
        cells[name] = BatchCells(dtype, end, width)
        end += max(1, width) * dtype.itemsize // CELL
    wide = any(cell.dtype is torch.int64 for cell in cells.values())
    return cells, end + (end % 2 if wide else 0)


def _pack(arrays: Mapping[str, InMemory]) -> BatchRows:
    cells, width = _layout(arrays)
    shape, features = (len(arrays["features"]), width), arrays["features"]
    if isinstance(features, np.ndarray):
        rows = torch.from_numpy(np.empty(shape, np.float32))  # NumPy requests huge pages: gathers are 20 % faster
    else:
        rows = torch.empty(shape, dtype=torch.float32, device=features.device)
    for name, array in arrays.items():
        target = cells[name].of(rows)
        if isinstance(array, np.ndarray):
            np.copyto(target.numpy(), array, casting="unsafe")  # as fast as PyTorch's transposing copy
        else:
            target.copy_(array)
    return BatchRows((rows,), tuple(cells), tuple(cells.values()))
