"""Command ``gpupipe doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpupipe.cli.options import emit, json_options
from gpupipe.cli.tables import make_table, print_table

if TYPE_CHECKING:
    from gpupipe.doctor import Finding

PIPE_WIDTH = 160  # columns of a table without a terminal
STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


@click.command
@json_options
def command(as_json: bool, output: Path | None) -> int:
    """Report the hardware and libraries of this machine, what is broken, and how to fix it.

    It checks the NVIDIA driver, each GPU, the GPU packages (installed, importable, compatible versions), and the
    libraries for the CPU.

    \b
    Exit codes:
      0  nothing is broken; there may be warnings, and no GPU
      4  something is broken
    """
    from dataclasses import asdict

    from gpupipe.doctor import diagnose, exit_code

    findings = diagnose()
    code = exit_code(findings)
    document = {"exit_code": code, "findings": [asdict(finding) for finding in findings]}
    emit(document, as_json, output, lambda: _show(findings))
    return code


def _show(findings: Sequence[Finding]) -> None:
    from rich.text import Text

    from gpupipe.report.text import printable

    table = make_table(("", "check", "found"), ("", "check"), folded=("found",))
    for finding in findings:
        fix = f"\nto do: {finding.fix}" if finding.fix else ""
        text = printable(finding.found + fix, keep="\n")  # a library's output may contain control characters
        table.add_row(Text(finding.level, STYLES[finding.level]), finding.check, text)
    print_table(table, [f"\n{_verdict(findings)}"], PIPE_WIDTH)


def _verdict(findings: Sequence[Finding]) -> str:
    levels = [finding.level for finding in findings]
    broken, doubtful = levels.count("error"), levels.count("warning")
    if broken:
        return f"{broken} broken, {doubtful} with a warning: fix the first one first"
    return f"nothing is broken, {doubtful} with a warning" if doubtful else "nothing is broken"
