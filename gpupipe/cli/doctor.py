"""Command ``gpupipe doctor``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpupipe.doctor import Finding

PIPE_WIDTH = 160  # columns of a table without a terminal
STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


@click.command
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(as_json: bool) -> int:
    """Report the hardware and libraries of this machine, what is broken, and how to fix it.

    It checks the NVIDIA driver, each GPU, the GPU packages (installed, importable, compatible versions), and the
    libraries for the CPU.

    \b
    Exit codes:
      0  nothing is broken; there may be warnings, and no GPU
      4  something is broken
    """
    import json
    from dataclasses import asdict

    from gpupipe.doctor import diagnose, exit_code

    findings = diagnose()
    code = exit_code(findings)
    if as_json:
        click.echo(json.dumps({"exit_code": code, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _show(findings)
    return code


def _show(findings: Sequence[Finding]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gpupipe.report.text import printable

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    table.add_column("check", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        fix = f"\nto do: {finding.fix}" if finding.fix else ""
        text = printable(finding.found + fix, keep="\n")  # a library's output may contain control characters
        table.add_row(Text(finding.level, STYLES[finding.level]), finding.check, text)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False)
    console.print(table)
    console.print(f"\n{_verdict(findings)}")


def _verdict(findings: Sequence[Finding]) -> str:
    levels = [finding.level for finding in findings]
    broken, doubtful = levels.count("error"), levels.count("warning")
    if broken:
        return f"{broken} broken, {doubtful} with a warning: fix the first one first"
    return f"nothing is broken, {doubtful} with a warning" if doubtful else "nothing is broken"
