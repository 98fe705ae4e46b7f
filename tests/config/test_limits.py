"""The ``limits:`` section."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import yaml

from gpupipe.config import Config, resolved_yaml

Load = Callable[..., Config]
Problems = Callable[..., Sequence[str]]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("0.5", 0.5), ("1.5 h", 5400)],
)
def test_durations_are_seconds_or_have_a_unit(load: Load, written: str, seconds: float) -> None:
    assert load(f"limits: {{time: {written}}}\n").limits.time == seconds


def test_limits_are_written_back_as_they_are_read(load: Load) -> None:
    text = "{memory: 2GiB, time: 2h, gpu_hours: 4, energy: 0.5, cost: 12.5, price: {hour: 3.2}, power: {cpu: 150}}"
    limits = load(f"limits: {text}\n").limits
    again = load(yaml.safe_dump({"limits": yaml.safe_load(resolved_yaml(load(f"limits: {text}\n")))["limits"]})).limits
    assert again == limits
    assert limits.memory == 2 << 30 and limits.price.gpu_hour == 0 and limits.power.gpu is None
    assert limits.of_a_run == {"time": 7200, "gpu_hours": 4, "energy": 0.5, "cost": 12.5}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("{time: 2 fortnights}", "limits.time: expected a duration such as 30d"),
        ("{time: 0s}", "got '0s'"),
        ("{time: .inf}", "limits.time"),
        ("{memory: 0}", "limits.memory"),
        ("{energy: .nan}", "limits.energy"),
        ("{gpu_hours: -1}", "limits.gpu_hours"),
        ("{cost: 5}", "cost needs a price; set one, as in price: {hour: 3.2}"),
        ("{cost: 5, price: {hour: -1}}", "limits.price.hour"),
        ("{power: {cpu: 0}}", "limits.power.cpu"),
        ("{tiem: 2h}", "tiem"),
    ],
)
def test_an_invalid_limit_is_named(problems: Problems, limits: str, words: str) -> None:
    (problem,) = problems(f"limits: {limits}\n")
    assert words in problem
