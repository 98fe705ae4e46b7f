"""Tables on a terminal, or in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.table

PIPE_WIDTH = 150  # columns of a table without a terminal
WARNING = "warning: "  # the beginning of lines that are yellow


def make_table(names: Iterable[str], left: Sequence[str], folded: Sequence[str] = ()) -> rich.table.Table:
    """Return an empty table; columns that are not `left` are aligned on the right, those `folded` may take lines."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        is_left = name in left or name in folded
        table.add_column(name, justify="left" if is_left else "right", no_wrap=name not in folded, overflow="fold")
    return table


def print_table(table: rich.table.Table, lines: Iterable[str] = (), pipe_width: int = PIPE_WIDTH) -> None:
    """Print a table and lines below it, as wide as the terminal; `pipe_width` columns wide without one."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else pipe_width, highlight=False, markup=False)
    console.print(table)
    for line in lines:
        console.print(line, style="yellow" if line.startswith(WARNING) else None, soft_wrap=True)
