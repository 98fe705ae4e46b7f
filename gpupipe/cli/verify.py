"""Command ``gpupipe verify RUN_OR_MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpupipe.cli.options import (
    TRUST_HELP,
    device_option,
    emit,
    json_options,
    parse_limits,
    untrusted_options,
)

if TYPE_CHECKING:
    from gpupipe.backends import Device
    from gpupipe.inference.parity.verification import Verification

PROBLEMS_SHOWN = 8
ORIGIN = "not checked: hashes and recorded rows show damage, not who made the model; who can change it can change them"


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=click.Path(path_type=Path))
@device_option
@click.option("--key", "--trust", "trust", metavar="KEY", multiple=True, help=TRUST_HELP)
@untrusted_options
@json_options
def command(
    model: Path,
    device: Device,
    trust: tuple[str, ...],
    allow_code: bool,
    untrusted: bool,
    limits: tuple[str, ...],
    as_json: bool,
    output: Path | None,
) -> int:
    """Check the files of a model, and compare its output on recorded rows with the output recorded in training.

    This finds damage and differences between machines. Only --key proves the origin of a model, before anything in it
    is parsed: anyone who can change a model can change its hashes and recorded rows too. Use --untrusted for a model
    from someone you do not trust.

    \b
    Exit codes:
      0  features and predictions match within the model's tolerance
      5  they differ, a file is corrupt, no rows were recorded, or the signature is not that of a KEY
    """
    from gpupipe.errors import ArtifactError
    from gpupipe.inference.model import load_model
    from gpupipe.model_parts.folder import model_inputs

    model_limits = parse_limits(limits, untrusted)
    own: Any = {"allow_code": allow_code, "untrusted": untrusted, "limits": model_limits, "trust": trust or None}
    loaded = load_model(model, device, **own)
    found = loaded.verify()
    code = 0 if found.passed else ArtifactError.exit_code
    origin = f"signed with a trusted key: {', '.join(trust)}" if trust else ORIGIN
    lines, document = (
        summary(found, str(loaded.folder), origin),
        {"model": str(loaded.folder), "origin": origin, "exit_code": code},
    )
    emit(document | found.to_json(), as_json, output, lambda: click.echo("\n".join(lines)), model_inputs(model))
    return code


def summary(found: Verification, where: str, origin: str = ORIGIN) -> list[str]:
    """Return a verification as one screen of text lines."""
    from gpupipe.report.text import number, printable

    alone = found.estimator
    whole = found.predictions
    worst = found.worst
    outside = sum(column.outside > 0 for column in found.columns)
    lines = [
        f"model        {where}",
        f"device       {found.device} ({found.reason}), features by {found.interpreter}, estimator on the cpu",
        f"features     {len(found.columns)} columns of {found.rows} rows, {outside} outside the tolerance",
        f"worst        {worst.name}: {number(worst.absolute)} absolute, {number(worst.relative)} relative",
        f"estimator    {_difference(alone.rows, alone.largest, alone.outside, alone.label_flips)}",
        f"predictions  {_difference(whole.rows, whole.largest, whole.outside, whole.label_flips)}",
    ]
    lines += [f"{name:<12} {number(now)}, {number(then)} recorded" for name, (then, now) in found.metrics.items()]
    lines += [f"not covered  {note}" for note in found.not_covered]
    lines += [f"DIFFERS      {problem}" for problem in found.problems[:PROBLEMS_SHOWN]]
    if more := len(found.problems) - PROBLEMS_SHOWN:
        lines += [f"             and {more} more: --json lists each column"] if more > 0 else []
    lines.append(f"origin       {origin}")
    return [*(printable(line) for line in lines), "as recorded" if found.passed else "not as recorded"]


def _difference(rows: int, largest: float, outside: int, flips: int) -> str:
    from gpupipe.report.text import number

    return f"of {rows} rows differ by at most {number(largest)}, {outside} outside the tolerance, {flips} label flips"
