"""Shuffled mini-batches of a table's rows, sliced where the rows are.

>>> import numpy as np
>>> from gpupipe.tensors.batches import Batches
>>> X, y = np.zeros((10, 3), "float32", order="F"), np.zeros(10, "float32")
>>> [tuple(batch.features.shape) for batch in Batches((X, y), batch_size=4)]
[(4, 3), (4, 3), (2, 3)]
"""

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
from gpupipe.tensors.batch_rows import BatchRows, InMemory, RowIndex, arrays_of, as_array, packed_bytes, to_rows
from gpupipe.tensors.prefetch import CudaMover, Tensors, move_batches
from gpupipe.tensors.shuffle import Epochs, RankBatches, permutation
from gpupipe.typing import HostArray

LARGEST = 1 << 32  # no seed or epoch is as large


class Batches(IterableDataset[TensorBatch[Tensor]]):
    """Mini-batches as `TensorBatch` of PyTorch tensors: ``for batch in Batches(data): ...``.

    An iteration is an epoch; the next one has another order. The order depends on the seed and the number of the epoch
    alone: not on rank, device, workers, or the version of a library. A batch is one gather: nothing is done row by row,
    and nothing is collated. It also goes into ``DataLoader(batches, batch_size=None, num_workers=2)``: the workers
    share the batches, and they come in the same order.

    Memory: shuffled, data that is not row-major, or not of the types below, is copied once, when this is made, into
    rows of 4-byte cells, numbers, ids, target and weight side by side: as much again as the data, which is not needed
    any more from then on. Row-major data is gathered where it lies, and not shuffled, all data is sliced where it lies:
    such batches are views of it (of read-only data, copies). An epoch's order takes 8 bytes a row. A batch has memory
    of its own, and does not change when it is kept.

    On the host there is no thread: making a batch takes little beside any training, and a thread would take one of its
    processors. Batches for a device come from rows on the device where they fit, and else from pinned memory, which a
    thread fills `prefetch` batches ahead.

    Parameters
    ----------
    data : TensorBatch, array of shape (n, d), or tuple (X, y)
        Of NumPy, CuPy, PyTorch or what else `gpupipe.tensors.exchange.to_torch` accepts; of arrays, y of integers or
        booleans is taken for class codes.
    batch_size : int
        Rows of this rank in a batch.
    shuffle : bool
    seed : int
    drop_last : bool
        Leave out a last step that has not all its rows.
    rank, world_size : int
        Which of how many processes this is. All ranks take as many steps, and in each of them together the very rows
        that one rank with a `batch_size` of `world_size` times as much would. A last step with not a row for each rank
        is left out.
    device : str or torch.device, optional
        Where the batches are to be; where the data is, if not given.
    prefetch : int
        How many batches are under way to a device that the rows do not fit into.
    device_share : float
        How much of the memory that is free on the device now the rows may take, the rest being the model's; with 0 they
        stay on the host.

    Attributes
    ----------
    placement : {"host", "device", "streamed"}
        Whether batches are sliced on the host, sliced on the device, or made on the host and copied to the device.

    Yields
    ------
    TensorBatch
        features float32 (b, d); ids int32 (b, c); target int64 (b,) for class codes, float32 (b,) for numbers; weight
        float32 (b,). They may be views of one buffer of b rows, so a row's numbers lie together, but two rows not
        always without a gap.

    Raises
    ------
    ConfigError
        If an argument is out of its range, or the data is not as stated.
    DataError
        If an array does not lie in memory as one.
    DeviceError
        If `device` cannot be had.
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
            raise ConfigError(f"rank is {rank} of {world_size}", fix=f"give one from 0 to {world_size - 1}")
        batch = _as_batch(data)
        self._shuffle, self._seed, self._prefetch = shuffle, seed, prefetch
        self._metadata = batch.metadata
        self._shard = RankBatches(len(batch), batch_size, rank, world_size, drop_last)
        self._epochs = Epochs()
        self._rows, self._device = _place(arrays_of(batch), shuffle, _device(device), device_share)
        self.placement = "host" if self._device.type == "cpu" else "streamed" if self._rows.on_host else "device"

    def __len__(self) -> int:
        """Return the number of batches of this rank in an epoch."""
        return len(self._shard)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, also that of the workers of a `DataLoader`; those after it count on."""
        _check(epoch=(epoch, 0))
        self._epochs.set(epoch)

    def __iter__(self) -> Iterator[TensorBatch[Tensor]]:
        worker = get_worker_info()
        if worker is not None and self._device.type != "cpu":
            raise ConfigError(
                "workers of a DataLoader cannot make batches on a device",
                fix="give num_workers=0, or iterate over the batches themselves: they are made ahead as it is",
            )
        return self._batches(self._epochs.next(worker), worker)

    def _batches(self, epoch: int, worker: Any | None) -> Iterator[TensorBatch[Tensor]]:
        for tensors in self._tensors(self._jobs(epoch, worker)):
            yield TensorBatch(**self._rows.cut(tensors), metadata=self._metadata)

    def _jobs(self, epoch: int, worker: Any | None) -> Iterator[RowIndex]:
        """Yield which rows each batch takes; of all workers each the batches whose turn it is."""
        first, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        order = self._order(epoch) if self._shuffle else None
        for step in range(first, len(self), workers):
            bounds = self._shard.bounds(step)
            yield bounds if order is None else order[bounds]

    def _order(self, epoch: int) -> HostArray | Tensor:
        order = permutation(self._shard.n_rows, self._seed, epoch)
        return order if self._rows.on_host else torch.from_numpy(order).to(self._device)

    def _tensors(self, jobs: Iterator[RowIndex]) -> Iterator[Tensors]:
        if self.placement != "streamed":
            return map(self._rows.take, jobs)
        mover = CudaMover(self._device, self._rows.parts, self._shard.batch_size)
        return move_batches(lambda job, buffers: self._rows.take_into(buffers, job), jobs, mover, self._prefetch)


def _check(**limits: tuple[Any, int]) -> None:
    for name, (value, least) in limits.items():
        if not isinstance(value, SupportsIndex) or not least <= index(value) < LARGEST:
            raise ConfigError(f"{name} is {value!r}", fix=f"give an integer from {least} to {LARGEST - 1}")


def _as_batch(data: Any) -> TensorBatch[Any]:
    if isinstance(data, TensorBatch):
        return data
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    return TensorBatch(as_array(X), target=None if y is None else as_array(y))


def _device(device: Any) -> Any:
    """Return the device asked for, None where none is."""
    if device is None:
        return None
    wanted = torch.device(device)
    if wanted.type not in ("cpu", "cuda"):
        raise ConfigError(f"batches cannot be made on {wanted}", fix="give 'cpu' or 'cuda'")
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError("PyTorch finds no CUDA device", where=f"device {wanted}", fix="see gpupipe doctor")
    return wanted


def _place(arrays: dict[str, InMemory], packed: bool, wanted: Any, share: float) -> tuple[BatchRows, Any]:
    """Return the rows where batches are taken from, and the device on which batches are to be."""
    features = arrays["features"]
    source = torch.device("cpu") if isinstance(features, np.ndarray) else features.device
    if source.type == "cuda":
        room = _fits(packed_bytes(arrays), source, share)  # without it, columns are slower to gather from, but there
        rows = to_rows(arrays, packed=packed and room)
        torch.cuda.current_stream(source).synchronize()  # whoever iterates may do it on another stream
        return (rows.to(wanted) if wanted else rows), wanted or source
    rows = to_rows(arrays, packed=packed)
    if wanted is None or wanted.type == "cpu":
        return rows, source
    return (rows.to(wanted) if _fits(rows.nbytes, wanted, share) else rows), wanted


def _fits(n_bytes: int, device: Any, share: float) -> bool:
    return bool(n_bytes <= share * torch.cuda.mem_get_info(device)[0])
