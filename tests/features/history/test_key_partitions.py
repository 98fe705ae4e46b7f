"""Histories computed per partition of the keys: bit-identical to those computed at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.errors import LimitError
from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.key_partitions import derive_by_keys, derive_partition, merge_partitions
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.features.ops.rfm import RFM
from gpupipe_kernels.engines import COSTS
from tests.features.histories import OPS_BY_NAME, ORDERS, ops_of, sources

N = 200


def assert_same(made: Iterable[DerivedColumn], expected: Iterable[DerivedColumn]) -> None:
    for one, other in zip(made, expected, strict=True):
        assert (one.name, one.inputs, one.like) == (other.name, other.inputs, other.like)
        np.testing.assert_array_equal(one.values, other.values, strict=True)


@pytest.mark.parametrize("name", OPS_BY_NAME)
def test_partitions_of_the_keys_give_the_result_of_all_keys(name: str) -> None:
    for op in ops_of(name):
        assert isinstance(op, KeyedOp)
        there, whole = sources(choose("cpu"), N), sources(choose("cpu"), N)
        keys = op.keys(there)
        bounds = [0, 1, keys.size // 2, keys.size]
        parts = [derive_partition(op, there, keys, a, b) for a, b in pairwise(bounds)]
        assert sum(part[0].size for part in parts if part[0] is not None) == N
        assert_same(merge_partitions(parts, there), list(op.derive(whole)))
        assert there.main.read == whole.main.read and there.main.schema == whole.main.schema
        assert there.events["orders"].rows.read == whole.events["orders"].rows.read


def test_partitions_of_the_keys_use_the_engine_of_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    op, there = RFM(**ORDERS), sources(choose("cpu"), N)
    keys = op.keys(there)
    costs = COSTS["keyed"]
    worth = costs.saved_ns * 1e-9 * (len(keys.events) - 1)  # for all events, and for no partition
    monkeypatch.setitem(COSTS, "keyed", replace(costs, compile_seconds=worth))
    for a, b in pairwise([0, keys.size // 2, keys.size]):
        derive_partition(op, there, keys, a, b)
    assert list(there.engines) == ["numba"]


class Hungry(RFM):
    """An op that runs out of memory above a number of orders."""

    most: int

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        if sources.events["orders"].rows.n_rows > self.most:
            raise MemoryError("too many orders")
        return super().derive(sources)


def test_out_of_memory_falls_back_to_fewer_keys_with_a_note() -> None:
    backend = choose("cpu")
    there = sources(backend, N)
    expected = list(RFM(**ORDERS).derive(there))
    assert_same(derive_by_keys(Hungry(most=100, **ORDERS), there), expected)
    assert [what for what in there.memory if what[0] == "history"] == []  # memory freed by earlier ops is available
    assert backend.take_notes() == ["the history of orders: out of memory at 6 keys: continued with 2 at a time"]


def test_a_key_that_does_not_fit_in_memory_is_an_error_with_its_size() -> None:
    with pytest.raises(LimitError, match="the history of orders: out of memory with 1 keys at a time") as error:
        derive_by_keys(Hungry(most=5, **ORDERS), sources(choose("cpu"), N))
    assert "GiB free" in error.value.where
