"""Options that several commands have: ``--device``, ``--untrusted`` and ``--limit``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import click

from gpupipe.errors import ConfigError

CHOICE = click.Choice(["auto", "cpu", "gpu"])

device_option = click.option(
    "--device", type=CHOICE, default="auto", show_default=True, help="Device to run on; gpu: the GPU, or exit code 4."
)
"""Of commands that take a model."""

device_override_option = click.option("--device", type=CHOICE, help="Where to run; gpu means there or an error.")
"""Of commands that take a configuration, which names a device itself."""


untrusted_option = click.option(
    "--untrusted",
    is_flag=True,
    help="Use the model in a child process with limits: one that crashes it, hangs or takes too much memory ends with "
    "exit code 5. For models from people you do not trust.",
)
limit_option = click.option(
    "--limit",
    "limits",
    metavar="memory=SIZE|time=DURATION",
    multiple=True,
    help="A limit of --untrusted. Default: half of the available memory; 120 s, and 2 ms more for each row, for each "
    "answer about up to 1,048,576 rows.",
)


def parse_limits(options: Sequence[str], untrusted: bool) -> dict[str, str | float] | None:
    """Return the limits of ``--limit memory=4GiB --limit time=5min`` by name; None without ``--untrusted``.

    Raises
    ------
    ConfigError
        If there are limits and the model is trusted.
    """
    if options and not untrusted:
        raise ConfigError(f"--limit {options[0]} does not work without --untrusted", fix="add --untrusted")
    found: dict[str, str | float] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{option!r} is not NAME=VALUE", param_hint="--limit")
        found[name] = value
        if name == "time":
            with suppress(ValueError):  # seconds
                found[name] = float(value)
    return found if untrusted else None
