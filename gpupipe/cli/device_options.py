"""``--device``: where a command runs."""

from __future__ import annotations

import click

CHOICE = click.Choice(["auto", "cpu", "gpu"])

device_option = click.option("--device", type=CHOICE, default="auto", show_default=True)
"""Of commands that take a model."""

device_override_option = click.option("--device", type=CHOICE, help="Where to run; gpu means there or an error.")
"""Of commands that take a configuration, which names a device itself."""
