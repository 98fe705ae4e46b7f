"""Checks of `Batches`, called by the tests on the host and on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpupipe.tensors.bags import IdBags
from gpupipe.tensors.batch import Metadata, TensorBatch
from gpupipe.tensors.batches import Batches

N, D, C = 1000, 4, 2  # with class codes and a weight an odd number of cells a row
METADATA = Metadata(names=tuple("abcd"), id_names=("plan", "city"), cardinalities=(9, 2000))

Make = Callable[[np.ndarray], Any]  # a NumPy array to one of a library, strides as they are


def table(make: Make, target: str = "int64", order: Any = "F") -> TensorBatch:
    """Return rows that tell their number in every array."""
    row = np.arange(N)
    features = np.asarray(row[:, None] + np.arange(D) / 8, "float32", order=order)
    ids = np.asarray(row[:, None] + np.arange(C), "int32", order=order)
    weight, offsets = (row / 4).astype("float32"), np.append(0, np.cumsum(row % 3)).astype("int32")
    bags = {"tags": IdBags(make(np.repeat(row, row % 3).astype("int32")), make(offsets))}
    return TensorBatch(make(features), make(ids), make(row.astype(target)), make(weight), METADATA, bags)


def check_rows(batch: TensorBatch, target: str = "int64") -> None:
    """Check that all arrays of a mini-batch tell the same rows, in the types that are promised."""
    row, ids, weight = batch.target, batch.ids, batch.weight
    assert batch.metadata is METADATA
    assert row is not None and ids is not None and weight is not None
    assert row.dtype is getattr(torch, target)
    assert batch.features.dtype is weight.dtype is torch.float32
    assert ids.dtype is torch.int32
    assert batch.features.shape == (len(row), D)
    assert ids.shape == (len(row), C)
    assert (batch.features.cpu() == row.cpu()[:, None] + torch.arange(D) / 8).all()
    assert (ids.cpu() == row.cpu()[:, None] + torch.arange(C)).all()
    assert (weight == row / 4).all()
    tags, n_items = batch.bags["tags"], row.long() % 3
    assert tags.ids.dtype is tags.offsets.dtype is torch.int32 and tags.ids.device == row.device
    assert (tags.ids == row.long().repeat_interleave(n_items)).all()
    assert tags.offsets.tolist() == [0, *n_items.cumsum(0).tolist()]


def rows_of(batches: Any) -> list[int]:
    """Return the numbers of the rows in the order that they come in, after a check of each mini-batch."""
    kept = list(batches)  # keep all: none may change when the next one is made
    for batch in kept:
        check_rows(batch, str(batch.target.dtype).removeprefix("torch."))
    return [int(row) for batch in kept for row in batch.target]


def check_an_epoch(make: Make, target: str, order: str, **options: Any) -> Batches:
    """Check that each row occurs once per epoch, in a new order, and that an epoch can be repeated."""
    batches = Batches(table(make, target, order), 64, seed=3, **options)
    first, second = rows_of(batches), rows_of(batches)
    assert len(batches) == 16
    assert sorted(first) == sorted(second) == list(range(N))
    assert first != second
    batches.set_epoch(0)
    assert rows_of(batches) == first
    assert rows_of(Batches(table(np.asarray), 64, seed=3)) == first  # for any location and layout of the rows
    return batches


def check_slices(make: Make, order: str, **options: Any) -> Batches:
    """Check that without shuffling the rows come as they are."""
    batches = Batches(table(make, "float32", order), 64, shuffle=False, **options)
    assert rows_of(batches) == rows_of(batches) == list(range(N))
    return batches


def check_an_early_end(make: Make, **options: Any) -> None:
    """Check that an iteration may be given up, and the next one is whole."""
    batches = Batches(table(make), 64, **options)
    for i, _ in enumerate(batches):
        if i == 3:
            break
    assert sorted(rows_of(batches)) == list(range(N))
