"""Mini-batches on a device, sliced there or streamed to it: the same rows in the same order as on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from benchmarks.batches.idle_time import share_between_steps
from benchmarks.batches.loaders import GPUPIPE, on_device
from benchmarks.batches.loaders import table as generated
from gpupipe.errors import ConfigError
from gpupipe.tensors.batches import Batches
from tests.tensors.batches_checks import N, check_an_early_end, check_an_epoch, check_slices, rows_of, table


def to_cupy(array: np.ndarray) -> Any:
    import cupy

    return cupy.asarray(array)


def to_cuda(array: np.ndarray) -> Any:
    return torch.from_numpy(array).cuda()


# Sources of rows: the host, the device (CuPy or PyTorch), and the host without room on the device.
WAYS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "moved": (np.asarray, {"device": "cuda"}, "device"),
    "CuPy": (to_cupy, {}, "device"),
    "PyTorch": (to_cuda, {}, "device"),
    "streamed": (np.asarray, {"device": "cuda", "device_share": 0}, "streamed"),
    "to the host": (to_cupy, {"device": "cpu"}, "host"),
    "no room for rows": (to_cupy, {"device_share": 0}, "device"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("target", ["int64", "float32"])
def test_each_row_comes_once_an_epoch_in_the_order_of_the_host(way: Any, target: str, order: str) -> None:
    make, options, placement = way
    assert check_an_epoch(make, target, order, **options).placement == placement


@pytest.mark.parametrize("order", ["C", "F"])
def test_without_shuffling_rows_keep_their_order(way: Any, order: str) -> None:
    make, options, _ = way
    check_slices(make, order, **options)


def test_an_iteration_may_be_abandoned(way: Any) -> None:
    make, options, _ = way
    check_an_early_end(make, **options)


def test_batches_are_on_the_requested_device(way: Any) -> None:
    make, options, placement = way
    batch = next(iter(Batches(table(make), 64, **options)))
    arrays: tuple[Any, ...] = (batch.features, batch.ids, batch.target, batch.weight)
    assert {array.device.type for array in arrays} == {"cpu" if placement == "host" else "cuda"}


def test_streamed_batches_are_right_while_the_device_is_busy() -> None:
    batches = Batches(table(np.asarray), 64, device="cuda", device_share=0)
    busy, kept = torch.rand(2000, 2000, device="cuda"), []
    for batch in batches:
        kept.append(batch.features.clone())  # queued after the product: it must find the batch complete
        busy = torch.tanh(busy @ busy)
    rows = [int(row) for part in kept for row in part[:, 0].tolist()]
    assert sorted(rows) == list(range(N))


def test_streamed_batches_follow_the_stream_of_the_consumer() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        rows = rows_of(Batches(table(np.asarray), 64, device="cuda", device_share=0))
    assert sorted(rows) == list(range(N))


def test_workers_of_a_loader_cannot_make_batches_on_a_device() -> None:
    loader = DataLoader(
        Batches(table(np.asarray), 64, device="cuda", device_share=0), batch_size=None, num_workers=1,
        multiprocessing_context="fork",
    )  # fmt: skip
    with pytest.raises(ConfigError, match="DataLoader workers"):
        next(iter(loader))


def test_the_benchmark_measures_the_time_between_steps() -> None:
    X, y = generated(200_000, 8)
    share = share_between_steps(on_device(X, y, 512)[GPUPIPE], 8)
    assert 0 <= share <= 1
