"""Options of ``gpupipe serve``: each sets a field of the server's settings, with its default and its limits."""

from __future__ import annotations

from dataclasses import asdict

import click
import pytest

from gpupipe.cli.serve import command
from gpupipe.serve.settings import ServeSettings


def parsed(*arguments: str) -> dict[str, object]:
    return command.make_context("serve", ["runs/a", *arguments]).params


def test_without_options_the_settings_are_the_defaults() -> None:
    values = parsed()
    assert values.pop("untrusted") is False and values.pop("limits") == ()
    assert asdict(ServeSettings(**values)) == asdict(ServeSettings(model="runs/a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        (("--max-body", "2MiB"), "max_body_bytes", 2 * 2**20),
        (("--read-timeout", "1500ms"), "read_seconds", 1.5),
        (("--batch-wait", "0ms"), "batch_wait_seconds", 0.0),
        (("--reload-interval", "0s"), "poll_seconds", 0.0),
        (("--explain", "off"), "explain", "off"),
        (("--allow-host", "a.example", "--allow-host", "b.example"), "allowed_hosts", ("a.example", "b.example")),
    ],
)
def test_a_value_with_a_unit_sets_its_field(arguments: tuple[str, ...], field: str, expected: object) -> None:
    assert parsed(*arguments)[field] == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--port", "65536"), ("--workers", "257"), ("--workers", "0"), ("--max-batch", "0"), ("--drift-rows", "999"),
        ("--read-timeout", "0s"), ("--max-body", "2 parsecs"), ("--explain", "maybe"), ("--drift", "yes"),
    ],
)  # fmt: skip
def test_a_value_outside_of_the_limits_is_refused_by_option(option: str, value: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        parsed(option, value)
    assert caught.value.param is not None and option in caught.value.param.opts
