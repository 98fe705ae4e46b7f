"""Some rows of a batch of tensors."""

from __future__ import annotations

from torch import Tensor

from gpupipe.tensors.batch import ARRAYS, TensorBatch


def take_rows(batch: TensorBatch[Tensor], rows: Tensor | slice) -> TensorBatch[Tensor]:
    """Return some rows of a batch of tensors; chosen by their numbers, they are row-major."""
    arrays = {name: array[rows] for name in ARRAYS if (array := getattr(batch, name)) is not None}
    return TensorBatch(**arrays)
