"""Options shared by several commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.io.output_conflicts import ProtectedInput

Command = TypeVar("Command", bound=Callable[..., Any])

CHOICE = click.Choice(["auto", "cpu", "gpu"])
PATH_OR_URL = click.Path(readable=False)  # any text: shells complete it as a path, readers report what is wrong

device_option = click.option(
    "--device",
    type=CHOICE,
    default="auto",
    show_default=True,
    help="The device to use. gpu: fail with exit code 4 if it cannot be used.",
)
"""Device option of commands that take a model."""

device_override_option = click.option(
    "--device", type=CHOICE, help="Device to run on, instead of that of CONFIG. gpu: exit code 4 if it cannot be used."
)
"""Device option of commands that take a configuration."""

override_option = click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Set a field of CONFIG: --set seed=8. Repeatable."
)
no_code_option = click.option(
    "--no-code",
    is_flag=True,
    help="Fail if CONFIG names code (hooks, kernels, estimators, SQL queries) instead of running it.",
)
allow_code_option = click.option(
    "--allow-code", is_flag=True, help="Run the Python code in the model: kernels written by its author."
)
TRUST_HELP = "Refuse a model that this key has not signed: a public key or certificate in PEM. Repeatable."
trust_option = click.option("--trust", metavar="KEY", multiple=True, help=TRUST_HELP)
table_option = click.option(
    "--table", "tables", metavar="NAME=FILE", multiple=True, help="A further table of the model, by name. Repeatable."
)
safe_csv_option = click.option(
    "--safe-csv",
    is_flag=True,
    help="Prefix texts and column names of a CSV output that a spreadsheet would run as a formula with an apostrophe.",
)


def untrusted_options(command: Command) -> Command:
    """Add ``--allow-code``, ``--untrusted`` and ``--limit`` to a command that opens a model."""
    untrusted = click.option(
        "--untrusted",
        is_flag=True,
        help="Run the model in a child process with limits, for models from untrusted sources. A model that crashes, "
        "hangs or needs too much memory ends with exit code 5.",
    )
    limit = click.option(
        "--limit",
        "limits",
        metavar="memory=SIZE|time=DURATION",
        multiple=True,
        help="A limit of --untrusted, repeatable. Defaults: half of the available memory; per batch of up to 1,048,576 "
        "rows, 120 s plus 2 ms per row.",
    )
    return allow_code_option(untrusted(limit(command)))


def copied_column_options(command: Command) -> Command:
    """Add ``--id``, ``--no-id`` and ``--keep``, the columns of the input that are copied to the output."""
    identifiers = click.option(
        "--id",
        "ids",
        metavar="COLUMN",
        multiple=True,
        help="Copy this identifier column to the front of the output. Repeatable. Default: the identifiers in the "
        "training data.",
    )
    no_identifiers = click.option("--no-id", is_flag=True, help="Copy no identifiers.")
    further = click.option(
        "--keep",
        metavar="COLUMNS",
        multiple=True,
        help='Copy further columns unchanged: names and globs, such as "plan,signup_*". Repeatable.',
    )
    return identifiers(no_identifiers(further(command)))


def _set_policy(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Apply ``--force`` and ``--mode`` to the outputs of the command; both are processed before ``-o``."""
    from gpupipe.files.policy import CAN_REPLACE, MODE
    from gpupipe.units import FileMode

    if param.name == "mode" and value not in get_args(FileMode):
        raise click.BadParameter(f"expected one of {', '.join(map(str, get_args(FileMode)))}; got {value}")
    variable: ContextVar[Any] = CAN_REPLACE if param.name == "force" else MODE
    ctx.call_on_close(partial(variable.reset, variable.set(value if variable is CAN_REPLACE else int(str(value), 8))))


mode_option = click.option(
    "--mode",
    type=int,
    default=600,
    show_default=True,
    is_eager=True,
    expose_value=False,
    callback=_set_policy,
    help="Permissions of the output. 640: the group can read it. Folders get x for each r.",
)
"""Option of commands whose outputs may contain personal data; other outputs get the permissions of the umask."""


def writable_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Return the file to write; raise ConfigError if that is impossible, before any work."""
    if value is not None:
        from gpupipe.files.file import require_writable_file

        require_writable_file(value)
    return value


def force_option(help: str) -> Callable[[Command], Command]:
    """Return the option ``--force``, without which no output of the command replaces a file."""
    return click.option("--force", is_flag=True, is_eager=True, expose_value=False, callback=_set_policy, help=help)


def output_file_option(
    help: str,
    *further: str,
    name: str = "output",
    force: str = "Replace an existing output file; folders are never replaced.",
    **attributes: Any,
) -> Callable[[Command], Command]:
    """Return the options ``-o, --output FILE`` and ``--force``.

    With ``callback=None``, the command itself checks the file, because it may be a folder, or has a default.
    """
    attributes = {"metavar": "FILE", "callback": writable_file, **attributes}
    option = click.option("-o", "--output", *further, name, type=click.Path(path_type=Path), help=help, **attributes)
    flag = force_option(force)
    return lambda command: option(flag(command))


def json_options(command: Command) -> Command:
    """Add ``--json`` and ``-o FILE`` to a command that prints a table: its document, printed or written."""
    flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
    return flag(output_file_option("Write the JSON document to this file too.")(command))


def emit(
    document: Any,
    as_json: bool,
    output: Path | None,
    show: Callable[[], None],
    inputs: Sequence[ProtectedInput] = (),
    is_private: bool = False,
) -> None:
    """Write a document to `output`, if it is given, and print it: as JSON, or with `show`.

    A private document has values of rows, and the permissions of ``--mode``. Raise ConfigError if `output` is one of
    the `inputs`.
    """
    if output is not None:
        from gpupipe.files.file import write_text
        from gpupipe.io.output_conflicts import require_no_conflict

        require_no_conflict(output, inputs)
        write_text(output, json.dumps(document, indent=2) + "\n", is_private)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        show()


def parse_limits(options: Sequence[str], untrusted: bool, cluster: str | None = None) -> dict[str, str | float] | None:
    """Parse ``--limit memory=4GiB --limit time=5min`` to limits by name; None without ``--untrusted``.

    Raise ConfigError if there are limits without ``--untrusted``, or ``--cluster`` with it.
    """
    if untrusted and cluster is not None:
        what = "--untrusted is not supported with --cluster: workers load models in their own processes"
        raise ConfigError(what, fix="remove --cluster")
    if options and not untrusted:
        raise ConfigError(f"--limit {options[0]} requires --untrusted", fix="add --untrusted")
    found: dict[str, str | float] = {**parse_pairs(options, "--limit")}
    with suppress(KeyError, ValueError):  # a number is seconds
        found["time"] = float(found["time"])
    return found if untrusted else None


def require_date(as_of: str | None) -> None:
    """Raise ConfigError if the value of ``--as-of`` is not a date."""
    from gpupipe.units import parse_time_us

    try:
        parse_time_us(as_of or "1970-01-01")
    except ValueError as error:
        raise ConfigError(f"--as-of: {error}") from None


def parse_tables(tables: Sequence[str]) -> dict[str, str]:
    """Return the files of ``--table NAME=FILE`` by name."""
    return parse_pairs(tables, "--table", "NAME=FILE")


def parse_pairs(options: Sequence[str], flag: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """Return the values of a repeated option, written in `form`, by name."""
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"expected {form}, got {option!r}", param_hint=flag)
        found[name] = value
    return found
