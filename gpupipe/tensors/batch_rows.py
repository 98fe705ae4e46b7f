"""The arrays of a batch packed into rows, from which a mini-batch is one gather."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpupipe.errors import ConfigError
from gpupipe.tensors.batch import ARRAYS, TensorBatch
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover_obstacles import on_device
from gpupipe.tensors.prefetch import Tensors
from gpupipe.typing import HostArray

CELL = 4  # bytes

InMemory: TypeAlias = "HostArray | Tensor"
"""An array of NumPy on the host, of PyTorch on a device."""
RowIndex: TypeAlias = "HostArray | Tensor | slice"
"""The numbers of rows, where the rows are, or a slice of them."""


@dataclass(frozen=True)
class BatchCells:
    """The position of one array of a batch in packed rows.

    Attributes
    ----------
    dtype : torch.dtype
    first, width : int
        In units of the dtype; a width of 0 is an array with one value a row.
    """

    dtype: Any
    first: int
    width: int

    def of(self, rows: Tensor) -> Tensor:
        """Return the array as a view of rows of float32 cells."""
        cells = rows if self.dtype is torch.float32 else rows.view(self.dtype)
        return cells[:, self.first : self.first + self.width] if self.width else cells[:, self.first]


@dataclass(frozen=True)
class BatchRows:
    """The arrays of a batch as rows to take mini-batches from.

    Attributes
    ----------
    parts : tuple of tensor
        Each with a row for each row of the batch: the packed rows alone, or the arrays as they are.
    names : tuple of str
        Of the arrays.
    cells : tuple of BatchCells
        The position of each in packed rows; empty where the parts are the arrays.
    read_only : bool
        Whether a part is memory that its owner takes for unchangeable.
    """

    parts: Tensors
    names: tuple[str, ...]
    cells: tuple[BatchCells, ...] = ()
    read_only: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.numel() * part.element_size() for part in self.parts)

    @property
    def on_host(self) -> bool:
        """Whether they lie on the host."""
        return bool(self.parts[0].device.type == "cpu")

    def to(self, device: Any) -> BatchRows:
        """Return the rows in the memory of another device."""
        return replace(self, parts=tuple(part.to(device) for part in self.parts), read_only=False)

    def cut(self, taken: Tensors) -> dict[str, Tensor]:
        """Return the arrays of a batch, by name, of rows taken from the parts: views of them."""
        arrays = (cells.of(taken[0]) for cells in self.cells) if self.cells else taken
        return dict(zip(self.names, arrays, strict=True))

    def take(self, index: RowIndex) -> Tensors:
        """Return rows by their numbers, or, of a slice, views; copies where the memory is read-only."""
        if isinstance(index, slice):
            return tuple(part[index].clone() if self.read_only else part[index] for part in self.parts)
        if not self.on_host:
            return tuple(part.index_select(0, index) for part in self.parts)
        made = tuple(torch.empty((len(index), *part.shape[1:]), dtype=part.dtype) for part in self.parts)
        return self.take_into(made, index)

    def take_into(self, buffers: Tensors, index: RowIndex) -> Tensors:
        """Write rows, which lie on the host, into the first rows of `buffers`, and return those."""
        n = index.stop - index.start if isinstance(index, slice) else len(index)
        filled = tuple(buffer[:n] for buffer in buffers)
        for part, target in zip(self.parts, filled, strict=True):
            if isinstance(index, slice):
                target.copy_(part[index])
            else:
                # A tenth faster than PyTorch's index_select, which uses one thread for this as well. "clip" spares a
                # copy: no number is out of range.
                np.take(part.numpy(), index, axis=0, out=target.numpy(), mode="clip")
        return filled


def arrays_of(batch: TensorBatch[Any]) -> dict[str, InMemory]:
    """Return the arrays of a batch by name: of NumPy on the host, of PyTorch on a device.

    Raises
    ------
    ConfigError
        If one has another number of dimensions than it should, or no real numbers, or if they lie in several places.
    DataError
        If one does not lie in memory as one array.
    """
    found = {name: as_array(array) for name in ARRAYS if (array := getattr(batch, name)) is not None}
    if len({isinstance(array, np.ndarray) for array in found.values()}) > 1:
        raise ConfigError("some arrays are on the host, others on a device", fix="give all of them in one place")
    for name, array in found.items():
        wanted = 2 if name in ("features", "ids") else 1
        if array.ndim != wanted or not _is_real(array):
            what = f"dtype {array.dtype} and shape {tuple(array.shape)}"
            raise ConfigError(f"{name}: {what}", fix=f"give real numbers, and dimensions: {wanted}")
    return found


def to_rows(arrays: Mapping[str, InMemory], *, packed: bool) -> BatchRows:
    """Return the arrays as rows, without a copy where possible.

    Parameters
    ----------
    arrays : mapping of str to array
        As `arrays_of` returns them. Numbers of another type than a batch has are converted.
    packed : bool
        For rows taken in any order: unless all arrays are row-major and of their type already, they are copied, once,
        into one row of 4-byte cells for each row; a gather then reads as few lines of memory as can be.
    """
    if packed and not all(_is_row_major(name, array) for name, array in arrays.items()):
        return _pack(arrays)
    parts = tuple(_tensor(array, _dtype(name, array)) for name, array in arrays.items())
    return BatchRows(parts, tuple(arrays), read_only=any(_is_read_only(array) for array in arrays.values()))


def packed_bytes(arrays: Mapping[str, InMemory]) -> int:
    """Return the bytes of packed rows of these arrays."""
    return CELL * _layout(arrays)[1] * len(arrays["features"])


def as_array(array: Any) -> InMemory:
    """Return an array of any library as one of NumPy (host) or PyTorch (device), over the same memory."""
    if isinstance(array, torch.Tensor):
        array = array.detach()
        if array.is_cuda:
            return array
    array = from_dlpack(array)
    return to_torch(array) if on_device(array) else array


def _is_real(array: InMemory) -> bool:
    return array.dtype.kind in "fiub" if isinstance(array, np.ndarray) else not array.dtype.is_complex


def _dtype(name: str, array: InMemory) -> Any:
    """Return the type that the array has in a mini-batch."""
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
    """Return a tensor over the array; over a copy, where its type or its strides are none of a tensor's."""
    if not isinstance(array, np.ndarray):
        return array.to(dtype)
    array = np.require(array, _numpy_dtype(dtype), ["A"])
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    with warnings.catch_warnings():  # of memory that is read-only: `BatchRows` only reads it
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _layout(arrays: Mapping[str, InMemory]) -> tuple[dict[str, BatchCells], int]:
    """Return where each array lies in packed rows, and how many cells a row has.

    Class codes have 8 bytes each: they come first, and rows are an even number of cells, so that they are aligned.
    """
    cells, end = {}, 0
    for name in sorted(arrays, key=lambda name: name != "target"):
        array, dtype = arrays[name], _dtype(name, arrays[name])
        width = array.shape[1] if array.ndim == 2 else 0
        cells[name] = BatchCells(dtype, end, width)
        end += width if array.ndim == 2 else dtype.itemsize // CELL
    wide = any(cell.dtype is torch.int64 for cell in cells.values())
    return cells, end + (end % 2 if wide else 0)


def _pack(arrays: Mapping[str, InMemory]) -> BatchRows:
    cells, width = _layout(arrays)
    shape, features = (len(arrays["features"]), width), arrays["features"]
    if isinstance(features, np.ndarray):
        rows = torch.from_numpy(np.empty(shape, np.float32))  # NumPy asks for huge pages: gathers are a fifth faster
    else:
        rows = torch.empty(shape, dtype=torch.float32, device=features.device)
    for name, array in arrays.items():
        target = cells[name].of(rows)
        if isinstance(array, np.ndarray):
            np.copyto(target.numpy(), array, casting="unsafe")  # the transposing copy of PyTorch is no faster
        else:
            target.copy_(array)
    return BatchRows((rows,), tuple(cells), tuple(cells.values()))
