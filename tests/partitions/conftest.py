"""Tables in partitions, and workers that pickle all arguments and results, as remote ones do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gpupipe.backends import Backend, choose
from gpupipe.features.statistics import categories, quantiles, reductions, row_blocks
from gpupipe.features.statistics import training as statistics
from gpupipe.partitions import table as partitions
from gpupipe.partitions.statistics import rank_selection
from gpupipe.partitions.statistics import training as merging
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers
from gpupipe.table.arrange import slice_rows
from gpupipe.table.blocks import Table
from tests.inline_workers import InlineWorkers


def divided(table: Table, cuts: Sequence[int], workers: Workers) -> PartitionedTable:
    """Return a table in partitions that end at `cuts`, and with the last row."""
    parts = [slice_rows(table, start, stop) for start, stop in pairwise([0, *cuts, table.n_rows])]
    handles, heights = tuple(map(workers.put, parts)), tuple(part.n_rows for part in parts)
    return PartitionedTable(handles, workers, heights, table.schema, table.places)


@contextmanager
def small(rows_a_part: int, few_values: int = 64) -> Iterator[None]:
    """Add up in parts of so few rows, and look for brackets in so few values, that small tables are large.

    Counts are merged two by two.
    """
    with ExitStack() as stack:
        for module in (row_blocks, categories, statistics, reductions, partitions):
            stack.enter_context(patch.object(module, "ROWS_PER_BLOCK", rows_a_part))
        for module in (quantiles, rank_selection):
            stack.enter_context(patch.object(module, "FEW_VALUES", few_values))
        stack.enter_context(patch.object(merging, "AT_ONCE", 2))
        yield


@pytest.fixture(scope="session")
def backend() -> Backend:
    """Return the host's backend."""
    return choose("cpu")


@pytest.fixture(scope="session")
def workers(backend: Backend) -> Workers:
    """Return workers that everything is sent to."""
    return InlineWorkers(backend, 2, copies=True)


@pytest.fixture(scope="session")
def divide() -> Callable[..., PartitionedTable]:
    """Return the way to cut a table into partitions."""
    return divided


@pytest.fixture(scope="session")
def small_parts() -> Callable[..., Any]:
    """Return the way to make small tables large; a context manager, for Hypothesis."""
    return small


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "gpupipe", folder], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)
