"""Training and test rows of one split."""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.errors import DataError
from gpupipe.typing import Array


@dataclass(frozen=True)
class Fold:
    """Masks of the training and test rows of one split: bool, shape (n_rows,); a row may be in neither."""

    train: Array
    test: Array

    def require_rows(self, where: str, fix: str, what: str = "the split") -> Fold:
        """Return this fold; raise DataError if one of its masks is empty."""
        for name, mask in (("train", self.train), ("test", self.test)):
            if not mask.any():
                raise DataError(f"{what} leaves none of {len(mask):,} rows to {name} on", where=where, fix=fix)
        return self
