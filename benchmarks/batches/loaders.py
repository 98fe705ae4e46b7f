"""Implementations of the comparison: iterables of mini-batches (features, target)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

from gpupipe.tensors.batches import Batches
from gpupipe.typing import Array

Pair = tuple[Any, Any]
Loaders = dict[str, Iterable[Pair]]

GPUPIPE = "gpupipe"
PLAIN = "DataLoader"
PANDAS = "DataLoader, pandas rows"
UNSHUFFLED, PLAIN_UNSHUFFLED = "gpupipe, unshuffled", "DataLoader, unshuffled"


class GpupipeBatches:
    """gpupipe's batches as pairs, through PyTorch's `DataLoader` if there are workers."""

    def __init__(self, batches: Batches, workers: int = 0) -> None:
        self._batches = DataLoader(batches, batch_size=None, num_workers=workers) if workers else batches

    def __iter__(self) -> Iterator[Pair]:
        for batch in self._batches:
            yield batch.features, batch.target


class IndexedBatches:
    """Hand-written alternative to a slow `DataLoader`: a permutation, and rows by index."""

    def __init__(self, X: Tensor, y: Tensor, batch_size: int, device: str = "cpu") -> None:
        self._X = X.to(device)
        self._y = y.to(device)
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Pair]:
        order = torch.randperm(len(self._y), device=self._y.device)
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            yield self._X[rows], self._y[rows]


class FrameRows(Dataset[Pair]):
    """Single rows of a pandas frame, as in many tutorials."""

    def __init__(self, X: Array, y: Array) -> None:
        import pandas as pd

        self._frame, self._target = pd.DataFrame(X, copy=False), pd.Series(y)

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, row: int) -> Pair:
        return torch.from_numpy(self._frame.iloc[row].to_numpy(copy=True)), int(self._target.iloc[row])


class ToDevice:
    """Pairs of a loader, moved to a device as documented: from pinned memory, asynchronously."""

    def __init__(self, loader: Iterable[Pair], device: str) -> None:
        self._loader, self._device = loader, device

    def __iter__(self) -> Iterator[Pair]:
        for X, y in self._loader:
            yield X.to(self._device, non_blocking=True), y.to(self._device, non_blocking=True)


def table(n_rows: int, n_columns: int) -> Pair:
    """Return a column-major float32 matrix, as gpupipe writes it, and a target with two classes."""
    rng = np.random.default_rng(0)
    X = rng.random((n_columns, n_rows), dtype=np.float32).T
    return X, (X[:, 0] > 0.5).astype(np.int64)


def on_host(X: Array, y: Array, batch_size: int) -> Loaders:
    """Return the implementations; data that they keep in memory is prepared here and not timed."""
    rows, target = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(y)
    data = TensorDataset(rows, target)
    load = partial(DataLoader[Any], data)
    return {
        GPUPIPE: GpupipeBatches(Batches((X, y), batch_size)),
        "gpupipe, row-major data": GpupipeBatches(Batches((rows, target), batch_size)),
        "gpupipe, 2 workers": GpupipeBatches(Batches((X, y), batch_size), workers=2),
        "permutation and index": IndexedBatches(rows, target, batch_size),
        PLAIN: load(batch_size=batch_size, shuffle=True),
        "DataLoader, 2 workers": load(batch_size=batch_size, shuffle=True, num_workers=2),
        "DataLoader, BatchSampler": load(
            sampler=BatchSampler(RandomSampler(data), batch_size, drop_last=False), batch_size=None
        ),
        PANDAS: DataLoader(FrameRows(X, y), batch_size=batch_size, shuffle=True),
        UNSHUFFLED: GpupipeBatches(Batches((X, y), batch_size, shuffle=False)),
        PLAIN_UNSHUFFLED: load(batch_size=batch_size),
    }


def on_device(X: Array, y: Array, batch_size: int) -> Loaders:
    """Return the implementations for batches on a CUDA device."""
    rows, target = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(y)
    load = partial(DataLoader[Any], TensorDataset(rows, target), batch_size=batch_size, shuffle=True, pin_memory=True)
    return {
        GPUPIPE: GpupipeBatches(Batches((X, y), batch_size, device="cuda")),
        "gpupipe, streamed": GpupipeBatches(Batches((X, y), batch_size, device="cuda", device_share=0)),
        "permutation and index": IndexedBatches(rows, target, batch_size, "cuda"),
        PLAIN: ToDevice(load(), "cuda"),
        "DataLoader, 2 workers": ToDevice(load(num_workers=2), "cuda"),
    }
