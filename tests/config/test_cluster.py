"""The ``cluster:`` section, and ``--cluster``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpupipe.config import Config
from gpupipe.config.cluster import ClusterSettings, override_of, settings_of
from gpupipe.errors import ConfigError

Load = Callable[..., Config]
Problems = Callable[..., Sequence[str]]


def test_without_a_scheduler_there_is_no_cluster(load: Load) -> None:
    assert load("cluster: {workers: 2}\n").cluster.scheduler is None


def test_sizes_are_written_with_their_unit(load: Load) -> None:
    cluster = load("cluster: {memory_limit: 2GiB, rmm_pool_size: 500MB, device_memory_limit: 1000}\n").cluster
    assert (cluster.memory_limit, cluster.rmm_pool_size, cluster.device_memory_limit) == (2 << 30, 500_000_000, 1000)


@pytest.mark.parametrize("scheduler", ["local", "tcp://host:8786", "ucx://10.0.0.1:80", "tls://[::1]:8786"])
def test_the_option_replaces_the_scheduler_alone(load: Load, scheduler: str) -> None:
    cluster = load("cluster: {scheduler: 'tcp://other:1', workers: 3}\n", override_of(scheduler)).cluster
    assert (cluster.scheduler, cluster.workers, cluster.scheduler_file) == (scheduler, 3, None)


@pytest.mark.parametrize("name", ["scheduler.json", "a b/it's: {x}.json", "${HOME}.json", "~/s.json", "3", "null"])
def test_any_other_word_is_a_literal_file_name(load: Load, name: str) -> None:
    assert load("seed: 1\n", override_of(name)).cluster.scheduler_file == Path(name)
    assert settings_of(name).scheduler_file == Path(name)


@pytest.mark.parametrize("scheduler", ["tcp://host", "tcp://:8786", "tcp://host:port", "http://host:8786", "tpc://h:1"])
def test_an_invalid_address_is_an_error_with_its_location(problems: Problems, scheduler: str) -> None:
    (problem,) = problems(f"cluster:\n  scheduler: {scheduler}\n")
    assert problem.startswith("c.yaml:")
    assert f"expected a scheduler address such as tcp://host:8786, got {scheduler!r}" in problem
    with pytest.raises(ConfigError, match="expected a scheduler address") as caught:
        settings_of(scheduler)
    assert caught.value.where == f"--cluster {scheduler}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("workers: 0", "cluster.workers"),
        ("worker: 2", "did you mean 'workers'"),
        ("memory_limit: lots", "expected a size such as 20GiB or 500MB, got 'lots'"),
        ("protocol: udp", "cluster.protocol"),
        ("deadline: 0", "cluster.deadline"),
        ("retries: -1", "cluster.retries"),
    ],
)
def test_an_error_names_its_field(problems: Problems, line: str, said: str) -> None:
    (problem,) = problems(f"cluster:\n  {line}\n")
    assert problem.startswith("c.yaml:")
    assert said in problem


def test_every_field_has_a_description() -> None:
    assert [name for name, field in ClusterSettings.model_fields.items() if not field.description] == []
