"""Command ``gpupipe serve RUN_OR_MODEL``: an HTTP server of a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from gpupipe.cli.options import parse_limits, untrusted_options
from gpupipe.serve.settings import UNITS, ServeSettings


class Amount(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, such as 16MiB or 10s."""

    def __init__(self, unit: str) -> None:
        self.name = unit.split(" ")[0].upper()
        self._parse = UNITS[unit]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of bytes or seconds."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _settings_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add an option for each field of `ServeSettings` that has one."""
    for each in reversed(fields(ServeSettings)):
        attributes: dict[str, Any] = dict(each.metadata)
        if not attributes:
            continue
        option, unit = attributes.pop("option"), attributes.pop("unit")
        low, high, choices = (attributes.pop(name, None) for name in ("low", "high", "choices"))
        if unit:
            attributes["type"] = Amount(unit)
        elif choices:
            attributes["type"] = click.Choice(choices)
        elif low is not None:
            attributes["type"] = click.IntRange(low, high)
        command = click.option(option, each.name, show_default=bool(each.metadata["default"]), **attributes)(command)
    return command


@click.command
@click.argument("model", metavar="RUN_OR_MODEL")
@_settings_options
@untrusted_options
def command(model: str, untrusted: bool, limits: tuple[str, ...], **options: Any) -> int:
    """Serve predictions of a model over HTTP: of a run or model directory, a folder of generations, or a link to one.

    The address is printed on stdout when the server is ready; open it in a browser for a form and an example request.
    A new model in RUN_OR_MODEL replaces the old one without interruption if it loads and has the same columns and
    outputs. Set the environment variable GPUPIPE_TOKEN to require a bearer token.

    With --untrusted, only worker processes open the model. Each has the limits: of memory, and of the time to open the
    model, to predict a batch, and to explain 32 rows. A worker that ends is replaced.

    \b
    Exit codes:
      2    the address cannot be used, or packages are missing
      5    the model cannot be loaded
      130  stopped by Ctrl-C
      143  stopped by SIGTERM
    """
    from gpupipe.artifact import trusted_keys
    from gpupipe.serve.server import configure_log, serve_model

    configure_log()
    allowed = parse_limits(limits, untrusted)
    if allowed is not None:
        from gpupipe.inference.untrusted.limits import UntrustedLimits

        options["limits"] = UntrustedLimits.of(allowed)
    settings = ServeSettings(model=model, **{**options, "trust": trusted_keys(options["trust"] or None)})

    def announce(url: str) -> None:
        click.echo(url)
        sys.stdout.flush()

    return 128 + serve_model(settings, announce)
