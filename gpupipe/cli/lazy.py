"""A group of commands, each imported when it is invoked and not before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from gpupipe.errors import did_you_mean


class LazyGroup(click.Group):
    """Commands by name, each with its one line of help; the code is ``command`` in ``gpupipe/cli/NAME.py``.

    Parameters
    ----------
    table : mapping of str to str
        Command name to help line, in the order in which ``--help`` lists them.
    """

    def __init__(self, *args: Any, table: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None where there is none of that name."""
        if cmd_name not in self.table:
            return None
        command: click.Command = import_module(f"gpupipe.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was meant; an unknown name is answered with the nearest."""
        if args and args[0] not in self.table and not args[0].startswith("-"):
            hint = did_you_mean(args[0], self.table) or f"the commands are {', '.join(self.table)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)
