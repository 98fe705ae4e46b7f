"""Shuffled mini-batches of a table's rows, gathered on the device that holds the rows."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from gpupipe.errors import ConfigError, DeviceError
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batch_rows import (
    BatchRows,
    InMemory,
    RowIndex,
    arrays_of,
    as_array,
    bag_tensors,
    packed_bytes,
    take_bags,
    to_rows,
)
from gpupipe.tensors.prefetch import CudaMover, Tensors, move_batches
from gpupipe.tensors.shuffle import Epochs, RankBatches, permutation
from gpupipe.typing import HostArray

LIMIT = 1 << 32  # seeds, epochs and sizes are below it


class Batches(IterableDataset[TensorBatch[Tensor]]):
    """Mini-batches as `TensorBatch` of PyTorch tensors: ``for batch in Batches(data): ...``.

    Each iteration is one epoch with a new row order. The order depends on the seed and the epoch number only, not on
    rank, device, workers or library versions. A batch is a single gather: there is no loop over rows and no collate
    function. ``DataLoader(batches, batch_size=None, num_workers=2)`` works too: its workers share the batches, which
    arrive in the same order.

    Memory: with `shuffle`, data that is not row-major in the dtypes below is copied once, on construction, into packed
    rows of 4-byte cells; the copy is as large as the data, which may be freed afterwards. Row-major data is gathered
    without that copy. Without `shuffle`, batches are views of the data (copies of read-only data). The row order of an
    epoch takes 8 bytes per row. Shuffled batches own their memory, so keeping them is safe.

    On the host no thread is started: making a batch costs little next to any training, and a thread would occupy one of
    its CPU cores. Batches for a device are gathered on the device if the rows fit there; otherwise a thread fills
    pinned host memory `prefetch` batches ahead.

    Parameters
    ----------
    data : TensorBatch, array of shape (n, d), or tuple (X, y)
        Arrays of NumPy, CuPy, PyTorch or any other library that `to_torch` accepts. An integer or boolean y holds class
        codes.
    batch_size : int
        Number of rows per batch on this rank.
    shuffle : bool
        Whether each epoch has a random row order.
    seed : int
        Seed of the row orders.
    drop_last : bool
        Drop a last step with fewer than ``batch_size * world_size`` rows.
    rank, world_size : int
        Number of this process, from 0, and the number of processes. All ranks take the same number of steps; in each
        step they together take the rows that one process with ``batch_size * world_size`` would. A last step with less
        than one row per rank is dropped.
    device : str or torch.device, optional
        Device of the batches, ``"cpu"`` or ``"cuda"``. Default: the device of the data.
    prefetch : int
        Number of batches in flight to a device that is too small for the rows, which has buffers for one more.
    device_share : float
        Fraction of the free device memory that the rows may take; the model needs the remaining memory. With 0, the
        rows stay on the host.

    Attributes
    ----------
    placement : {"host", "device", "streamed"}
        Batches are gathered on the host, gathered on the device, or gathered on the host and copied to the device.

    Yields
    ------
    TensorBatch
        features float32 (b, d); ids int32 (b, c); target int64 (b,) for class codes, float32 (b,) for regression,
        (b, k) for several targets; weight float32 (b,). The arrays may be views of one buffer of b rows, so they are
        not always contiguous. bags: ids int32 (items of the b rows,), offsets int32 (b + 1,), from 0.

    Raises
    ------
    ConfigError
        If an argument is out of range, or the arrays have the wrong number of dimensions or no real numbers.
    DataError
        If an array is not stored as one array: it has nulls, or several chunks.
    DeviceError
        If `device` is not available.

    Examples
    --------
    >>> import numpy as np
    >>> from gpupipe import Batches
    >>> X = np.arange(20, dtype="float32").reshape(10, 2)
    >>> y = np.arange(10) % 2
    >>> batches = Batches((X, y), batch_size=4, seed=7)
    >>> for batch in batches:
    ...     print(tuple(batch.features.shape), batch.target.dtype)
    (4, 2) torch.int64
    (4, 2) torch.int64
    (2, 2) torch.int64
    """

    def __init__(
        self,
        data: Any,
        batch_size: int = 4096,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        device: Any = None,
        prefetch: int = 2,
        device_share: float = 0.8,
    ) -> None:
        super().__init__()
        _check(batch_size=(batch_size, 1), seed=(seed, 0), world_size=(world_size, 1), prefetch=(prefetch, 1))
        if not 0 <= rank < world_size:
            raise ConfigError(f"expected a rank in [0, {world_size}); got {rank}", fix="pass the rank of this process")
        batch = _as_batch(data)
        self._shuffle = shuffle
        self._seed = seed
        self._prefetch = prefetch
        self._metadata = batch.metadata
        self._shard = RankBatches(len(batch), batch_size, rank, world_size, drop_last)
        self._epochs = Epochs()
        bags = {name: bag_tensors(each) for name, each in batch.bags.items()}
        n_bytes = sum(each.ids.nbytes + each.offsets.nbytes for each in bags.values())
        self._rows, self._device = _place(arrays_of(batch), shuffle, _device(device), device_share, n_bytes)
        place = "cpu" if self._rows.on_host else self._device
        self._bags = {name: each.map(lambda array: array.to(place)) for name, each in bags.items()}
        self.placement = "host" if self._device.type == "cpu" else "streamed" if self._rows.on_host else "device"

    def __len__(self) -> int:
        """Return the number of batches of this rank in an epoch."""
        return len(self._shard)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, also for the workers of a `DataLoader`; later ones count up from it."""
        _check(epoch=(epoch, 0))
        self._epochs.set(epoch)

    def __iter__(self) -> Iterator[TensorBatch[Tensor]]:
        worker = get_worker_info()
        if worker is not None and self._device.type != "cpu":
            raise ConfigError(
                "DataLoader workers cannot make batches on a device",
                fix="pass num_workers=0, or iterate over the batches directly: they are prefetched already",
            )
        return self._batches(self._epochs.next(worker), worker)

    def _batches(self, epoch: int, worker: Any | None) -> Iterator[TensorBatch[Tensor]]:
        order = self._order(epoch) if self._shuffle else None
        # A prefetching thread takes the rows in advance, so bags have their own iterator of the same rows.
        own, rows = self._jobs(order, worker), self._jobs(order, worker)
        for tensors, at in zip(self._tensors(own), rows, strict=True):
            bags = {
                name: take_bags(each, at).map(lambda array: array.to(self._device)) for name, each in self._bags.items()
            }
            yield TensorBatch(**self._rows.cut(tensors), metadata=self._metadata, bags=bags)

    def _jobs(self, order: HostArray | Tensor | None, worker: Any | None) -> Iterator[RowIndex]:
        """Yield the row index of each batch; workers take the batches in turn."""
        first, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for step in range(first, len(self), workers):
            bounds = self._shard.bounds(step)
            yield bounds if order is None else order[bounds]

    def _order(self, epoch: int) -> HostArray | Tensor:
        order = permutation(self._shard.n_rows, self._seed, epoch)
        return order if self._rows.on_host else torch.from_numpy(order).to(self._device)

    def _tensors(self, jobs: Iterator[RowIndex]) -> Iterator[Tensors]:
        if self.placement != "streamed":
            return map(self._rows.take, jobs)
        mover = CudaMover(self._device, self._rows.parts, self._shard.batch_size, self._prefetch)
        return move_batches(lambda job, buffers: self._rows.take_into(buffers, job), jobs, mover, self._prefetch)


def _check(**limits: tuple[Any, int]) -> None:
    for name, (value, least) in limits.items():
        if not isinstance(value, SupportsIndex) or not least <= index(value) < LIMIT:
            raise ConfigError(f"expected an integer {name} in [{least}, {LIMIT:,}); got {value!r}")


def _as_batch(data: Any) -> TensorBatch[Any]:
    if isinstance(data, TensorBatch):
        return data
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    return TensorBatch(as_array(X), target=None if y is None else as_array(y))


def _device(device: Any) -> Any:
    """Return `device` as a ``torch.device``, or None for None."""
    if device is None:
        return None
    wanted = torch.device(device)
    if wanted.type not in ("cpu", "cuda"):
        raise ConfigError(f"expected the device 'cpu' or 'cuda'; got {str(wanted)!r}", fix="pass one of them")
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError("PyTorch finds no CUDA device", where=f"device {wanted}", fix="run `gpupipe doctor`")
    return wanted


def _place(
    arrays: dict[str, InMemory], packed: bool, wanted: Any, share: float, bag_bytes: int
) -> tuple[BatchRows, Any]:
    """Return the rows that batches are taken from, and the device of the batches."""
    features = arrays["features"]
    source = torch.device("cpu") if isinstance(features, np.ndarray) else features.device
    if source.type == "cuda":
        has_room = _fits(packed_bytes(arrays), source, share)  # else gather from the columns, which is slower
        rows = to_rows(arrays, packed=packed and has_room)
        torch.cuda.current_stream(source).synchronize()  # the consumer may iterate on another stream
        return (rows.to(wanted) if wanted else rows), wanted or source
    rows = to_rows(arrays, packed=packed)
    if wanted is None or wanted.type == "cpu":
        return rows, source
    return (rows.to(wanted) if _fits(rows.nbytes + bag_bytes, wanted, share) else rows), wanted


def _fits(n_bytes: int, device: Any, share: float) -> bool:
    return bool(n_bytes <= share * torch.cuda.mem_get_info(device)[0])
