"""Connection to the cluster of the ``cluster:`` section: started, found, unreachable or incompatible."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpupipe.backends import device_report
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask import versions
from gpupipe.dask.connect import FOR_EACH_WORKER, cluster_shape, connect
from gpupipe.errors import ClusterError, ConfigError, DeviceError
from tests.dask import chores
from tests.dask.somebody import Somebody, processes_below, started

HERE = {"gpupipe": "0.1.0", "python": "3.11.7", "distributed": "2026.8.0", "numpy": "2.4.6"}
DASK = [sys.executable, "-m", "dask"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Somebody]:
    """A running scheduler with one worker."""
    with started(tmp_path_factory.mktemp("running"), 1) as running:
        yield running


def found(scheduler: object, **settings: object) -> ClusterSettings:
    return ClusterSettings(scheduler=str(scheduler), **{"deadline": 30, **settings})


def test_a_running_scheduler_is_found_by_its_file_and_by_its_address(running: Somebody) -> None:
    for scheduler in (running.file, running.address):
        with connect(found(scheduler), "cpu") as workers:
            assert (workers.n_workers, workers.n_threads) == (1, 2)
            assert workers.gather([workers.submit(chores.surroundings)])[0]["n_threads"] == 1


def test_auto_reports_why_the_workers_use_the_cpu(running: Somebody) -> None:
    obstacle = device_report().gpu_obstacle
    if not obstacle:
        pytest.skip("this machine has a GPU")
    with connect(found(running.file), "auto") as workers:
        assert workers.device == "cpu"
        assert obstacle in workers.reason


def test_a_gpu_that_no_worker_has_is_an_error_that_names_the_worker(running: Somebody) -> None:
    if not device_report().gpu_obstacle:
        pytest.skip("this machine has a GPU")
    with pytest.raises(DeviceError) as caught, connect(found(running.file), "gpu"):
        pass
    assert "1 workers cannot use a GPU" in caught.value.what
    assert caught.value.where.startswith("tcp://127.0.0.1:")


def test_a_gpu_that_is_not_here_is_an_error_before_anything_is_started() -> None:
    if not device_report().gpu_obstacle:
        pytest.skip("this machine has a GPU")
    before = processes_below()
    with pytest.raises(DeviceError, match="the GPU cannot be used"), connect(found("local"), "gpu"):
        pass
    assert processes_below() == before


def test_a_local_cluster_leaves_no_processes_or_files() -> None:
    import dask

    before = processes_below()
    level, settings = logging.getLogger("distributed.worker").level, dask.config.get("distributed.scheduler")
    with connect(found("local", workers=1), "cpu") as workers:
        workers.gather([workers.submit(chores.process)])
        assert len(processes_below() - before) == 1
    assert processes_below() == before
    assert logging.getLogger("distributed.worker").level == level
    assert dask.config.get("distributed.scheduler") == settings


def test_plugins_of_a_worker_find_row_stack_in_numpy() -> None:
    """dask-cuda's plugins import cuDF on the worker, which fails without it."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, plugins=[chores.CudfImport()], **FOR_EACH_WORKER
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        client.wait_for_workers(1, timeout=30)
        assert list(client.run(chores.CudfImport.succeeded).values()) == [True]


def test_workers_of_a_failed_run_are_ended_too() -> None:
    before = processes_below()
    with pytest.raises(ZeroDivisionError), connect(found("local", workers=1), "cpu") as workers:
        workers.gather([workers.submit(chores.broken)])
    assert processes_below() == before


def test_an_unreachable_address_is_an_error_that_names_it() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        silence = "no scheduler answered within 1 s"
        with pytest.raises(ClusterError, match=silence) as caught, connect(found(address, deadline=1), "cpu"):
            pass
    assert (caught.value.where, caught.value.exit_code) == (address, 4)


def test_a_scheduler_without_workers_is_an_error_with_the_command_to_start_one(tmp_path: Path) -> None:
    with started(tmp_path, 0) as alone:
        settings = found(alone.file, deadline=1)
        with pytest.raises(ClusterError, match="has no workers") as caught, connect(settings, "cpu"):
            pass
        assert caught.value.fix.startswith(f"start workers with `dask worker {alone.address}`")


def test_the_requested_number_of_workers_is_awaited(running: Somebody) -> None:
    settings = found(running.file, workers=2, deadline=2)
    with pytest.raises(ClusterError, match="has 1 of 2 workers"), connect(settings, "cpu"):
        pass


def test_a_dashboard_needs_its_package(running: Somebody) -> None:
    if find_spec("bokeh"):
        pytest.skip("bokeh is installed")
    with (
        pytest.raises(ConfigError, match="bokeh") as caught,
        connect(found("local", dashboard_address=":0"), "cpu"),
    ):
        pass
    assert caught.value.fix.startswith("pip install bokeh")


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '"tcp://a:1"', "not JSON"])
def test_an_invalid_scheduler_file_is_a_configuration_error(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "scheduler.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match="scheduler") as caught, connect(found(file), "cpu"):
        pass
    assert str(file) in caught.value.what
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("package", "version", "line"),
    [
        ("gpupipe", "0.2.0", "gpupipe 0.2.0 on tcp://a:1, 0.1.0 here: results depend on the code"),
        ("gpupipe", None, "gpupipe none on tcp://a:1, 0.1.0 here"),
        ("python", "3.12.1", "python 3.12.1 on tcp://a:1, 3.11.7 here"),
        ("distributed", "2026.7.1", "distributed 2026.7.1 on tcp://a:1, 2026.8.0 here"),
        ("numpy", "2.5.0", "numpy 2.5.0 on tcp://a:1, 2.4.6 here"),
    ],
)
def test_other_versions_that_matter_are_an_error_that_names_both(package: str, version: str | None, line: str) -> None:
    with pytest.raises(ClusterError) as caught:
        versions.compare(HERE, {"tcp://a:1": {**HERE, package: version}})
    assert line in caught.value.what


def test_irrelevant_version_differences_are_ignored() -> None:
    versions.compare(HERE, {"tcp://a:1": {**HERE, "python": "3.11.2", "numpy": "2.4.0"}})


def test_a_scheduler_is_compared_by_the_packages_it_needs() -> None:
    record = {"packages": {"python": "3.11.7.final.0", "distributed": "2026.8.0", "numpy": None}}
    versions.compare(HERE, {"the scheduler": versions.scheduler_versions(record)})
    with pytest.raises(ClusterError, match="on the scheduler"):
        versions.compare({**HERE, "python": "3.12.0"}, {"the scheduler": versions.scheduler_versions(record)})


def test_many_differences_are_one_screen() -> None:
    theirs = {f"tcp://a:{i}": {**HERE, "numpy": "1.26.0"} for i in range(40)}
    with pytest.raises(ClusterError) as caught:
        versions.compare(HERE, theirs)
    assert len(str(caught.value).splitlines()) < 10
    assert "and 35 more" in caught.value.what


def test_workers_of_another_gpupipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gpupipe").mkdir()
    (tmp_path / "gpupipe" / "__init__.py").write_text("__version__ = '0.0.9'\n")
    with started(tmp_path, 1, paths=[str(tmp_path)]) as other:
        settings = found(other.file)
        with pytest.raises(ClusterError, match=r"gpupipe 0\.0\.9 on tcp://.*here"), connect(settings, "cpu"):
            pass


@pytest.mark.parametrize(
    ("settings", "n_cores", "shape"),
    [
        ({}, 1, (1, 1)), ({}, 2, (2, 1)), ({}, 4, (4, 1)), ({}, 32, (8, 4)),
        ({"workers": 3}, 2, (3, 1)), ({"workers": 2}, 8, (2, 4)), ({"threads": 4}, 16, (4, 4)),
        ({"threads": 4}, 2, (1, 4)), ({"workers": 3, "threads": 5}, 2, (3, 5)),
    ],
)  # fmt: skip
def test_unset_sizes_use_every_core(settings: dict[str, int], n_cores: int, shape: tuple[int, int]) -> None:
    assert cluster_shape(ClusterSettings(scheduler="local", **settings), n_cores) == shape
