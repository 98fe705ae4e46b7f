"""Workers of a Dask cluster, in local processes: they behave as `InlineWorkers`."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.configuration import BEFORE_START
from gpupipe.dask.connect import connect
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import CellProblem, DataError, GpupipeError, LimitError
from gpupipe.partitions.collection import PartitionedValues
from gpupipe.partitions.workers import Workers, WorkerUsage
from gpupipe.units import GIB
from tests.dask import chores
from tests.hostile_modules import imported_modules, write_hostile_modules
from tests.inline_workers import InlineWorkers


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskWorkers]:
    """Two processes, started in a folder with modules that they must not import."""
    settings = ClusterSettings(scheduler="local", workers=2, threads=1, memory_limit=GIB, deadline=30)
    folder = tmp_path_factory.mktemp("hostile")
    write_hostile_modules(folder)
    for name in BEFORE_START:  # leftovers of a cluster started by Dask alone, which would count as the user's
        os.environ.pop(name, None)
    with chdir(folder), connect(settings, "cpu") as workers:
        yield workers
    assert imported_modules(folder) == []
    assert "PYTHONSAFEPATH" not in os.environ


def sums_by_part(workers: Workers) -> list[float]:
    factor = workers.put(np.array([2.0]))
    parts = [workers.submit(chores.numbers, i * 10, i * 10 + 10, label=f"part {i}") for i in range(7)]
    made = [workers.submit(chores.scaled, part, factor) for part in parts]
    sums = [workers.submit(chores.total, part) for part in made]
    return workers.gather([*sums, workers.submit(chores.total, *made)])


def test_results_match_one_process_in_the_order_of_the_handles(workers: DaskWorkers) -> None:
    alone = sums_by_part(InlineWorkers(choose("cpu")))
    assert sums_by_part(workers) == alone
    assert alone[-1] == 2 * sum(range(70))


def test_batched_arguments_give_the_same_results_as_single_ones(workers: DaskWorkers) -> None:
    def sums(workers: Workers) -> list[float]:
        labels = [f"part {i}" for i in range(4)]
        parts = workers.map(chores.numbers, ((i * 10, i * 10 + 10) for i in range(4)), labels)
        each = [parts[:1], parts[:3], (), [parts[3], 5.0]]  # none is as long as the next
        return workers.gather(workers.map(chores.total, each, labels))

    assert sums(workers) == sums(InlineWorkers(choose("cpu"))) == [45.0, 435.0, 0.0, 350.0]
    assert workers.map(chores.total, [], []) == []


def test_awaited_results_stay_on_the_worker_and_errors_are_raised(workers: DaskWorkers) -> None:
    part = workers.submit(chores.numbers, 0, 10)
    workers.wait([part])
    assert workers.homes([part])[0]
    with pytest.raises(DataError, match="row 4"):
        workers.wait([part, *workers.map(chores.unreadable, [(4,)], ["reading"])])


def test_there_are_as_many_as_asked_for(workers: DaskWorkers) -> None:
    assert (workers.n_workers, workers.n_threads, workers.device, workers.reason) == (2, 2, "cpu", "asked for")


def test_a_pinned_task_runs_on_its_worker(workers: DaskWorkers) -> None:
    pids = workers.client.run(os.getpid)
    asked = [*pids, *pids]
    tasks = [task for address in asked for task in workers.map(chores.process, [()], ["task"], address)]
    assert workers.gather(tasks) == [pids[address] for address in asked]


def test_a_lambda_is_sent_with_its_closure_and_partitions_are_mapped_in_order(workers: DaskWorkers) -> None:
    factor = 3.0
    parts = PartitionedValues(tuple(workers.put(np.full(n, 2.0)) for n in range(5)), workers)
    scaled = parts.map(lambda backend, rows, by: (rows * factor * by, backend.name), each=[range(5)])
    sums = scaled.compute(lambda _, pair, unit: (pair[0].sum(), pair[1], unit), "unit")
    assert sums == [(6.0 * n * n, "cpu", "unit") for n in range(5)]


def test_nothing_is_gathered_from_nothing(workers: DaskWorkers) -> None:
    assert workers.gather([]) == []


def test_the_backend_of_a_worker_is_made_once_with_its_share_of_the_cores(workers: DaskWorkers) -> None:
    numbers = workers.gather(workers.map(chores.backend_number, [()] * 3, [""] * 3, min(workers.health.workers)))
    assert len(set(numbers)) == 1
    (found,) = workers.gather([workers.submit(chores.surroundings)])
    share = str(max(1, choose("cpu").n_threads // 2))
    assert found == {
        "backend": "cpu", "n_threads": int(share), "GPUPIPE_THREADS": share, "interrupts": False,
        "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1",
        "MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_MMAP_THRESHOLD_": "33554432", "PYTHONSAFEPATH": "1",
    }  # fmt: skip


def test_a_gpupipe_error_keeps_its_class_and_fields(workers: DaskWorkers) -> None:
    with pytest.raises(DataError) as caught:
        workers.gather([workers.submit(chores.unreadable, 12)])
    assert (caught.value.exit_code, caught.value.where, caught.value.fix) == (5, "a.csv, row 12", "fix it")
    assert str(caught.value) == "a field is missing\n  where: a.csv, row 12\n  to do: fix it"


def test_of_several_errors_the_one_of_the_first_handle_is_raised(workers: DaskWorkers) -> None:
    late, early = workers.map(chores.unreadable, [(0, 1.0), (1,)], [""] * 2)
    with pytest.raises(DataError, match="row 0"):
        workers.gather([late, early])
    with pytest.raises(DataError, match="row 1"):
        workers.gather([early, late])


def test_an_error_reaches_dependent_tasks(workers: DaskWorkers) -> None:
    with pytest.raises(DataError, match="row 3"):
        workers.gather([workers.submit(chores.total, workers.submit(chores.unreadable, 3))])


def test_a_bug_keeps_its_class(workers: DaskWorkers) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug"):
        workers.gather([workers.submit(chores.broken)])


def test_a_failed_allocation_is_a_limit_error_with_a_fix(workers: DaskWorkers) -> None:
    with pytest.raises(LimitError) as caught:
        workers.gather([workers.submit(chores.out_of_memory, label="reading partition 3 of 7")])
    assert caught.value.where == "reading partition 3 of 7"
    assert "cluster.memory_limit" in caught.value.fix


def test_large_values_can_be_put(workers: DaskWorkers) -> None:
    values = np.arange(3_000_000, dtype="float64")
    shared = workers.put(values)
    asked = [workers.map(chores.total, [(shared,)], [""], address)[0] for address in workers.health.workers]
    assert workers.gather(asked) == [values.sum()] * 2


def test_each_worker_reports_its_work_and_memory(workers: DaskWorkers) -> None:
    before = {use.address: use for use in workers.usage()}
    held = [workers.map(chores.numbers, [(0, 100_000)], [""], address)[0] for address in before]
    workers.gather(held)
    after = told_after(workers, lambda uses: min(use.bytes_held for use in uses) >= 800_000)
    assert [use.address for use in after] == list(before)
    assert sum(use.tasks - before[use.address].tasks for use in after) == 2
    assert all(use.seconds >= before[use.address].seconds for use in after)
    assert all(use.peak_bytes > 10 << 20 and use.bytes_spilled == 0 for use in after)


def told_after(workers: DaskWorkers, told: Callable[[list[WorkerUsage]], bool]) -> list[WorkerUsage]:
    """Return what the workers did once they have told it: a sign of life comes twice a second."""
    end = time.monotonic() + 60
    while not told(uses := workers.usage()):
        assert time.monotonic() < end, uses
        time.sleep(0.05)
    return uses


@pytest.mark.gpu
def test_workers_with_a_gpu_each_give_the_same() -> None:
    settings = ClusterSettings(scheduler="local", rmm_pool_size=GIB, enable_cudf_spill=True)
    with connect(settings, "gpu") as workers:
        assert workers.device == "gpu"
        assert workers.gather([workers.submit(chores.surroundings)])[0]["backend"] == "gpu"
        assert sums_by_part(workers) == sums_by_part(InlineWorkers(choose("cpu")))


def every_error(kind: type[GpupipeError]) -> Iterator[type[GpupipeError]]:
    yield kind
    for count_below in kind.__subclasses__():
        yield from every_error(count_below)


def example(kind: type[GpupipeError]) -> GpupipeError:
    """Return an error of a kind; some say more than the others."""
    needed = [p for p in inspect.signature(kind).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    values: dict[str, Any] = {"what": "what", "code": 1, "signal_number": 15, "where": "where", "cause": "crash"}
    values |= {"how": "crashed", "encoding": "utf-8", "line": 3, "n_fields": 4, "n_columns": 5}
    values |= {"lines": [("what", None)], "problems": [CellProblem(0, "tenure", "-1", "range: [0, 72]")]}
    given = [values[parameter.name] for parameter in needed if parameter.default is parameter.empty]
    has_place = {"where", "fix"} <= {*inspect.signature(kind).parameters} - {p.name for p in needed}
    return kind(*given, where="where", fix="fix") if has_place else kind(*given)


@pytest.mark.parametrize("kind", sorted(set(every_error(GpupipeError)), key=attrgetter("__name__")))
def test_every_gpupipe_error_survives_pickling(kind: type[GpupipeError]) -> None:
    from distributed.protocol.pickle import dumps, loads

    error = example(kind)
    back = loads(dumps(error))
    assert (type(back), str(back), vars(back), back.exit_code) == (kind, str(error), vars(error), error.exit_code)
