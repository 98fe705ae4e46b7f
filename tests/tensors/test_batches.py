"""Mini-batches of rows on the host: as a plain iterable, in a `DataLoader`, over ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from gpupipe.errors import ConfigError, DataError, DeviceError
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches
from tests.tensors.batches_checks import N, check_an_early_end, check_an_epoch, check_slices, rows_of, table

MAKERS = {"NumPy": np.asarray, "PyTorch": torch.from_numpy}


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def targets(batches: Any) -> list[list[int]]:
    return [batch.target.tolist() for batch in batches]


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("target", ["int64", "float32"])
def test_each_row_comes_once_an_epoch(make: Any, target: str, order: str) -> None:
    assert check_an_epoch(make, target, order).placement == "host"


@pytest.mark.parametrize("order", ["C", "F"])
def test_without_shuffling_rows_keep_their_order(make: Any, order: str) -> None:
    check_slices(make, order)


def test_an_iteration_may_be_abandoned(make: Any) -> None:
    check_an_early_end(make)


def test_the_device_may_be_named() -> None:
    assert check_an_epoch(np.asarray, "int64", "F", device="cpu").placement == "host"


@given(
    n=st.integers(0, 200), size=st.integers(1, 64), world_size=st.integers(1, 4), drop_last=st.booleans(),
    order=st.sampled_from("CF"), codes=st.booleans(), seed=st.integers(0, 5), epoch=st.integers(0, 5),
)  # fmt: skip
@settings(deadline=None)
def test_ranks_together_see_the_larger_batches_of_one_rank(
    n: int, size: int, world_size: int, drop_last: bool, order: Any, codes: bool, seed: int, epoch: int
) -> None:
    row = np.arange(n)
    X = np.asarray(np.stack([row, row + 0.5], 1), "float32", order=order)
    y = row if codes else row.astype("float32")

    def steps(size: int, **ranks: Any) -> list[list[int]]:
        batches = Batches((X, y), size, seed=seed, drop_last=drop_last, **ranks)
        batches.set_epoch(epoch)
        found = list(batches)
        assert len(found) == len(batches)
        targets: list[Any] = [one.target for one in found]
        halves = torch.tensor([0, 0.5])
        assert all((one.features == y[:, None] + halves).all() for one, y in zip(found, targets, strict=True))
        return [y.int().tolist() for y in targets]

    ranks = [steps(size, rank=rank, world_size=world_size) for rank in range(world_size)]
    together = [[row for part in parts for row in part] for parts in zip(*ranks, strict=True)]
    alone = steps(size * world_size)
    assert together == alone[: len(together)]
    left_out = [row for step in alone[len(together) :] for row in step]
    assert len(left_out) < world_size
    if not drop_last:
        assert sorted(sum(together, left_out)) == row.tolist()


def test_a_batch_that_is_changed_changes_no_other_and_no_data() -> None:
    X = np.ones((10, 2), "float32")
    for _ in range(2):
        for batch in Batches(X, 4):
            assert (batch.features == 1).all()
            batch.features.zero_()
    assert (X == 1).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_slices_without_shuffling_are_views_of_the_data(order: Any) -> None:
    X = np.ones((10, 2), "float32", order=order)
    starts = [batch.features.data_ptr() for batch in Batches(X, 4, shuffle=False)]
    assert starts == [X[i:].ctypes.data for i in (0, 4, 8)]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_read_only_data_is_taken_and_never_written(order: Any, shuffle: bool) -> None:
    X = read_only(np.ones((10, 2), "float32", order=order))
    for batch in Batches(X, 4, shuffle=shuffle):
        batch.features.zero_()
    assert (X == 1).all()


def test_row_major_data_is_not_copied_and_other_data_once() -> None:
    for order, seen in (("C", 7.0), ("F", 1.0)):
        X = np.ones((10, 2), "float32", order=order)  # type: ignore[call-overload]
        batches = Batches(X, 4)
        X[:] = 7
        assert {float(batch.features[0, 0]) for batch in batches} == {seen}


def test_several_arrays_are_copied_to_one_allocation() -> None:
    for batch in Batches(table(np.asarray), 64):
        arrays: tuple[Any, ...] = (batch.features, batch.ids, batch.target, batch.weight)
        assert len({array.untyped_storage().data_ptr() for array in arrays}) == 1


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("dtype", [">f8", "f4", "i2"])
def test_numbers_of_other_types_and_in_reverse_are_converted(dtype: str, shuffle: bool) -> None:
    X = np.arange(20, dtype=dtype).reshape(10, 2)[::-1]
    y = np.arange(10)[::-1] % 2 == 1
    for batch in Batches((X, y), 4, shuffle=shuffle):
        assert batch.features.dtype is torch.float32
        assert batch.target is not None
        assert batch.target.dtype is torch.int64
        assert (batch.features[:, 0] / 2 % 2 == batch.target).all()


def test_arrow_columns_are_targets() -> None:
    y = pa.array(np.arange(10))
    X = np.arange(10, dtype="float32")[:, None]
    for batch in Batches((X, y), 3):
        assert batch.target is not None
        assert (batch.features[:, 0] == batch.target).all()


@pytest.mark.parametrize("features", [0, 3])
def test_a_batch_may_have_no_numbers(features: int) -> None:
    data = TensorBatch(np.zeros((10, features), "float32"), ids=np.arange(10, dtype="int32")[:, None])
    got = list(Batches(data, 4))
    assert [tuple(batch.features.shape) for batch in got] == [(4, features), (4, features), (2, features)]
    assert sorted(int(i) for batch in got if batch.ids is not None for i in batch.ids) == list(range(10))


def test_a_loader_without_workers_is_the_same_iterable() -> None:
    loader = DataLoader(Batches(table(np.asarray), 64), batch_size=None)
    assert len(loader) == 16
    assert targets(loader) == targets(Batches(table(np.asarray), 64))


WORKERS = """
import sys
import numpy as np
from torch.utils.data import DataLoader
from gpupipe.tensors.batches import Batches

def epochs(batches, n):
    return [[batch.target.tolist() for batch in batches] for _ in range(n)]

if __name__ == "__main__":
    data = np.arange(90, dtype="float32").reshape(-1, 1), np.arange(90)
    expected = epochs(Batches(data, 7), 3)
    for workers, persistent in eval(sys.argv[2]):
        batches = Batches(data, 7)
        loader = DataLoader(
            batches, batch_size=None, num_workers=workers, persistent_workers=persistent,
            multiprocessing_context=sys.argv[1],
        )
        assert len(loader) == 13
        assert epochs(loader, 3) == expected, (workers, persistent)
        batches.set_epoch(1)
        assert epochs(loader, 2) == expected[1:], (workers, persistent)
    print("equal")
"""


@pytest.mark.parametrize(
    ("start", "loaders"), [("fork", [(1, False), (2, True), (2, False)]), ("spawn", [(1, True)])], ids=["fork", "spawn"]
)
def test_workers_of_a_loader_give_the_same_batches_in_the_same_order(
    tmp_path: Path, start: str, loaders: list[tuple[int, bool]]
) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    command = [sys.executable, str(script), start, str(loaders)]  # a separate process: JAX here does not survive a fork
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "equal\n", done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, r"batch_size in \[1, .*; got 0"),
        ({"batch_size": 2.5}, "got 2.5"),
        ({"seed": -1}, r"seed in \[0, .*; got -1"),
        ({"prefetch": 0}, "integer prefetch"),
        ({"world_size": 0}, "integer world_size"),
        ({"rank": 2, "world_size": 2}, "got 2"),
        ({"device": "meta"}, "got 'meta'"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Batches(np.zeros((3, 1), "float32"), **options)


def test_an_epoch_is_a_number() -> None:
    with pytest.raises(ConfigError, match="integer epoch"):
        Batches(np.zeros((3, 1), "float32")).set_epoch(-1)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ((np.zeros((3, 1)), np.zeros((3, 1, 1))), ConfigError, r"target: .*dtype float64 and shape \(3, 1, 1\)"),
        (np.zeros(3), ConfigError, r"features: .*dtype float64 and shape \(3,\)"),
        (np.array([["a"]]), ConfigError, "dtype <U1"),
        ((np.zeros((3, 1)), np.zeros(4)), ConfigError, "differ in length"),
        (np.zeros((3, 1), "complex64"), ConfigError, "dtype complex64"),
        ((np.zeros((2, 1)), pa.chunked_array([[1.0], [2.0]])), DataError, "2 chunks"),
    ],
)
def test_invalid_data_is_refused(data: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Batches(data)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_an_error() -> None:
    with pytest.raises(DeviceError, match="no CUDA device"):
        Batches(table(np.asarray), device="cuda")


def test_a_step_with_fewer_rows_than_ranks_is_dropped_on_all_ranks() -> None:
    X = np.zeros((N + 1, 1), "float32")
    assert [len(Batches(X, N // 2, rank=rank, world_size=2)) for rank in (0, 1)] == [1, 1]


def test_batches_are_detached_from_the_gradients_of_the_data() -> None:
    X = torch.ones(4, 2, requires_grad=True)
    assert not any(batch.features.requires_grad for batch in Batches(X, 2))


def test_orders_do_not_depend_on_the_shape_of_the_batches() -> None:
    wide, narrow = (Batches(table(np.asarray), size, seed=5) for size in (500, 7))
    assert rows_of(wide) == rows_of(narrow)
