"""Options of the commands that apply a model to rows, and their output."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpupipe.cli.options import (
    Command,
    allow_code_option,
    device_option,
    parse_limits,
    parse_tables,
    require_date,
    table_option,
    trust_option,
    untrusted_options,
)
from gpupipe.cli.source_options import parse_source_options, rewrite_terms, source_option, use_command_line_terms
from gpupipe.errors import DataError

if TYPE_CHECKING:
    from gpupipe.inference.diff.model_diff import ModelDiff
    from gpupipe.inference.drift.report import DriftReport
    from gpupipe.inference.evaluation.evaluation import Evaluation
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings
    from gpupipe.inference.scoring.summary import ScoreSummary


def scoring_options(as_of: str, document: str = "", cluster: str = "") -> Callable[[Command], Command]:
    """Return the options of the model and its rows; the command gets their values as one argument, `settings`.

    `as_of` begins the help of ``--as-of``. `document` is what ``--json`` prints; without one, there are no ``--json``,
    ``--quiet``, ``--untrusted`` and ``--limit``. `cluster` is what workers do; without it, there is no ``--cluster``.
    Errors of the command are reworded for the command line.
    """
    options = [
        source_option,
        table_option,
        click.option("--as-of", metavar="DATE", help=f"{as_of} instead of the training cut-offs."),
        device_option,
        trust_option,
    ]
    if cluster:
        text = f"{cluster} on Dask workers: started on this machine (local), or those of a scheduler (address or file)."
        options.append(click.option("--cluster", metavar="local|ADDRESS|FILE", help=text))
    if document:
        flag = click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document on stdout: {document}.")
        options += [untrusted_options, flag, click.option("--quiet", is_flag=True, help="Print errors only.")]
    else:
        options.append(allow_code_option)

    def decorate(command: Command) -> Any:
        @wraps(command)
        def with_settings(**given: Any) -> Any:
            if document:
                del given["as_json"]  # `show_summary` and `show_report` read it from the context
            with use_command_line_terms():
                settings = _take_settings(given)
                return command(settings=settings, **given)

        found: Any = with_settings
        for option in reversed(options):
            found = option(found)
        return found

    return decorate


def _take_settings(given: dict[str, Any]) -> ScoringSettings:
    """Return the settings of a command, and remove the options that they replace from those given."""
    from gpupipe.inference.scoring.scoring_settings import ScoringSettings
    from gpupipe.io.settings import TableSource
    from gpupipe.report.text import printable

    names = ("device", "allow_code", "untrusted", "as_of", "trust")
    own: dict[str, Any] = {name: given.pop(name) for name in names if name in given}
    own["trust"] = own["trust"] or None
    adjust = partial(parse_source_options, given.pop("source_options"))
    limits = parse_limits(given.pop("limits", ()), own.get("untrusted", False), given.get("cluster"))
    adjust(TableSource(path=given["data"] or "INPUT"))  # report invalid options before the model is loaded
    require_date(own["as_of"])
    is_quiet = given.pop("quiet", False)

    def log(text: str) -> None:
        if not is_quiet:
            click.echo(printable(rewrite_terms(text)), err=True)

    if "ids" in given:
        ids, no_id = given.pop("ids"), given.pop("no_id")
        if no_id and ids:
            raise click.UsageError("--no-id cannot be combined with --id")
        own |= {"ids": () if no_id else ids or None, "keep": given.pop("keep"), "safe_csv": given.pop("safe_csv")}
    return ScoringSettings(**own, limits=limits, tables=parse_tables(given.pop("tables")), adjust=adjust, log=log)


def show_summary(summary: ScoreSummary, settings: ScoringSettings) -> None:
    """Log a summary of a scoring, and print it as JSON if ``--json`` is given."""
    for line in summary.lines():
        settings.log(line)
    options = click.get_current_context().params
    if options["as_json"]:
        about = {"model": str(options["model"]), "input": options["data"]}
        click.echo(json.dumps({**about, **summary.to_json()}, indent=2))


def show_report(found: DriftReport | Evaluation, is_failed: bool) -> int:
    """Write the page of ``--html`` and print a report; return the exit code."""
    from gpupipe.files.jsonfile import plain

    options = click.get_current_context().params
    write_page(found, options["html"], options["data"])
    code = DataError.exit_code if is_failed else 0
    if options["as_json"]:
        document = {"model": str(options["model"]), "input": options["data"], "exit_code": code, **found.to_json()}
        click.echo(json.dumps(plain(document), indent=2))
    elif not options["quiet"]:
        click.echo(rewrite_terms("\n".join(found.lines())))
    return code


def write_page(found: DriftReport | Evaluation | ModelDiff, html: Path | None, data: str | None) -> None:
    """Write the HTML page of a report, if a file is given."""
    if html is not None:
        from gpupipe.files.file import write_text
        from gpupipe.io.files import mask

        write_text(html, found.to_html(mask(data or "")))


def require_free_page(html: Path | None, model: Path, data: str, settings: ScoringSettings) -> None:
    """Raise ConfigError if a page would overwrite an input."""
    if html is not None:
        from gpupipe.inference.scoring.outputs import scoring_inputs
        from gpupipe.io.output_conflicts import require_no_conflict

        require_no_conflict(html, scoring_inputs(model, data, settings.tables))
