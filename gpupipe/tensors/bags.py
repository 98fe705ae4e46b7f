"""Bags of ids: lists of categories in a compressed sparse row layout, as ``torch.nn.EmbeddingBag`` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

A = TypeVar("A")  # arrays of one library


class IdBags(NamedTuple, Generic[A]):
    """The ids of the items of lists, and where the list of each row begins.

    - `ids`: int32, shape (n_items,): 0 null, 1 an item that is not a level, 3 and above the levels, then the buckets
    - `offsets`: int32, shape (n + 1,): the ids of row i are ``ids[offsets[i] : offsets[i + 1]]``
    """

    ids: A
    offsets: A

    def map(self, function: Callable[[A], Any]) -> IdBags[Any]:
        """Return the bags with the result of a function of each array."""
        return IdBags(function(self.ids), function(self.offsets))
