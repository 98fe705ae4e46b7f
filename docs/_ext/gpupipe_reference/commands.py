"""The command-line reference, generated from click's commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

import click

from gpupipe.cli import COMMANDS, cli
from gpupipe_reference.markdown import code, definition, fence, inline, mark_as_code, page, paragraphs, table
from gpupipe_reference.schema_text import flow

EXAMPLES = {
    "run": "gpupipe run configs/churn.yaml --set seed=8 --device cpu",
    "runs": "gpupipe runs --sort roc_auc",
    "compare": "gpupipe compare runs/churn-… runs/churn-…",
    "diff": 'gpupipe diff runs/churn-… runs/churn-… new.csv --fail-on "flips>2%"',
    "dossier": "gpupipe dossier runs/churn-… -o dossier",
    "open": "gpupipe open runs/churn-…",
    "predict": 'gpupipe predict runs/churn-… new.csv -o scores.csv --keep "plan,signup_*" --on-error reject',
    "explain": "gpupipe explain runs/churn-… new.csv -o explained.parquet --keep signup_date",
    "drift": "gpupipe drift runs/churn-… new.csv --by day:scored_at --fail-on moderate",
    "evaluate": "gpupipe evaluate runs/churn-… scored.parquet --by month:scored_at --fail-on worse",
    "update": "gpupipe update runs/churn-… june.csv --with may.csv -o runs/june",
    "serve": "gpupipe serve runs/churn-… --port 8080 --workers 2",
    "export": "gpupipe export runs/churn-… -o churn-model",
    "promote": "gpupipe promote models/churn runs/churn-…",
    "rollback": "gpupipe rollback models/churn",
    "history": "gpupipe history models/churn",
    "verify": "gpupipe verify churn-model",
    "sign": "gpupipe sign runs/churn-… --key key.pem",
    "reproduce": "gpupipe reproduce runs/churn-…",
    "init": "gpupipe init customers.csv --target churned",
    "check": "gpupipe check customers.yaml",
    "plan": "gpupipe plan customers.yaml --assume-gpu 16GiB",
    "gpus": "gpupipe gpus customers.yaml --gpu l4 --gpu rtx-4090",
    "doctor": "gpupipe doctor",
    "bench": "gpupipe bench configs/churn.yaml",
    "kernels": "gpupipe kernels test",
    "schema": "gpupipe schema -o gpupipe.schema.json",
}


def command_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the page by its path in the reference.

    Raises
    ------
    ValueError
        If a command has no example, or an option has no help text.
    """
    if set(EXAMPLES) != set(COMMANDS):
        raise ValueError(f"commands without an example in {__name__}: {sorted(set(COMMANDS) ^ set(EXAMPLES))}")
    context = click.Context(cli, info_name="gpupipe")
    rows = [[f"[{code(f'gpupipe {name}')}](#cli-{name})", inline(text)] for name, text in COMMANDS.items()]
    blocks = [
        section
        for name in COMMANDS
        if (command := cli.get_command(context, name)) is not None
        for section in _sections(command, context, name, links, 2)
    ]
    return {
        "cli.md": page(
            "reference-cli",
            "Command line",
            table(["command", "purpose"], rows),
            fence("gpupipe [--debug] COMMAND [OPTIONS] ...", "text"),
            _options(cli, context, "cli"),
            "Results go to stdout, progress and errors to stderr. The exit code is 0, or that of "
            "[the error](#reference-errors).",
            *blocks,
        )
    }


def _sections(
    command: click.Command, parent: click.Context, name: str, links: Mapping[str, str], level: int
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    label = f"cli-{context.command_path.removeprefix('gpupipe ').replace(' ', '-')}"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    blocks = [
        f"({label})=\n{'#' * level} {code(context.command_path)}",
        fence(usage, "text"),
        paragraphs(_with_placeholders(inspect.cleandoc(command.help or "").replace("\b\n", ""), context), links),
        _options(command, context, label),
    ]
    if name in EXAMPLES and level == 2:
        blocks.append("Example:\n\n" + fence(EXAMPLES[name], "sh"))
    yield "\n\n".join(block for block in blocks if block)
    for sub, inner in (command.commands if isinstance(command, click.Group) and level < 4 else {}).items():
        yield from _sections(inner, context, sub, links, level + 1)


def _options(command: click.Command, context: click.Context, label: str) -> str:
    return "\n".join(
        _option(param, context, label) for param in command.get_params(context) if isinstance(param, click.Option)
    )


def _option(option: click.Option, context: click.Context, label: str) -> str:
    record = option.get_help_record(context)
    if record is None:  # hidden
        return ""
    if not option.help:
        raise ValueError(f"{context.command_path} {option.opts[0]} has no help text")
    names = ", ".join(code(name) for name in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag or option.count else f" {code(_metavar(option, context))}"
    facts = [f"[{names}{value}]{{#{label}{re.sub('[^a-z]+', '-', option.opts[-1])}}}"]
    if option.required:
        facts.append("**required**")
    if isinstance(option.type, click.IntRange) and option.type.min is not None:
        facts.append(f"≥ {option.type.min:,}")
    if option.multiple:
        facts.append("repeatable")
    if option.show_default and option.default is not None and not option.is_flag:
        facts.append(f"default {code(flow(option.default))}")
    term = " — ".join([facts[0], ", ".join(facts[1:])]) if facts[1:] else facts[0]
    return definition(term, inline(_with_placeholders(option.help, context)))


def _metavar(option: click.Option, context: click.Context) -> str:
    return "N" if isinstance(option.type, click.IntRange) else option.make_metavar(context).strip("[]")


def _with_placeholders(text: str, context: click.Context) -> str:
    """Return a help text with the placeholders of the command as code: CONFIG, OUTPUT.rejected.csv."""
    words = {(param.name or "").upper() for param in context.command.get_params(context)}
    words |= {
        word for param in context.command.get_params(context) for word in re.findall(r"[A-Z_]{3,}", param.metavar or "")
    }
    names = "|".join(sorted(words, key=len, reverse=True))
    return mark_as_code(text, rf"(?<![\w.-])({names})(\.[a-z]+)*(?![\w-])")
