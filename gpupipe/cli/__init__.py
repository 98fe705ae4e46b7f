"""The command line. A command is one file here and one line in `COMMANDS`, imported when it is invoked."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import click

from gpupipe import __version__
from gpupipe.cli.errors import INTERRUPTED, show_error
from gpupipe.cli.streams import standard_streams
from gpupipe.errors import did_you_mean

PIPE_CLOSED = 0  # the exit code of `gpupipe schema | head -1`, whose reader has all that it wants

COMMANDS = {
    "run": "Take a table to a trained, evaluated, portable model.",
    "predict": "Score a table with a trained model.",
    "export": "Copy a trained model into a folder of its own, verified.",
    "verify": "Check a model's files, and that it gives here what it gave where it was trained.",
    "init": "Read a table and write a starter configuration for it.",
    "check": "Check a configuration against its data: every mistake at once.",
    "plan": "Say what a run would do and need, before it runs: devices, memory, parts.",
    "doctor": "Say what this machine offers, what is broken, and how to mend it.",
    "bench": "Measure a configuration, cold and warm, against hand-written peers.",
    "kernels": "List the feature kernels with their contracts; test, compile or inspect them.",
    "schema": "Print the JSON Schema of the configuration, for editors.",
}


class LazyGroup(click.Group):
    """The commands of `COMMANDS`; the code of each is ``command`` in ``gpupipe/cli/NAME.py``, imported when invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gpupipe.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was meant; an unknown name is answered with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"the commands are {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@dataclass
class Invocation:
    """What the options of the group said."""

    debug: bool = False


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, message="gpupipe %(version)s")
@click.pass_obj
def cli(invocation: Invocation, debug: bool) -> None:
    """Tables to a trained, portable model: one YAML for the GPU, the laptop and the cluster.

    Begin with `gpupipe init DATA --target COLUMN`, then `gpupipe run CONFIG`.
    """
    invocation.debug = debug


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (the process's own by default) and return the exit code.

    0 done, 1 internal error, 2 configuration or usage, 3 does not fit, 4 no such device, 5 data; 130 interrupted, 143
    terminated.
    """
    invocation = Invocation()
    if args is None:  # Dask, joblib and multiprocessing start Python too: not with modules of the current folder
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    with standard_streams():
        code = _run(args, invocation)
        try:
            sys.stdout.flush()
        except OSError as error:
            return code or _failed(error, invocation)
    return code


def _run(args: Sequence[str] | None, invocation: Invocation) -> int:
    try:
        code = cli.main(args=args, prog_name="gpupipe", obj=invocation, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # click takes it for the end of what a user types
            return show_error(error.__cause__, invocation.debug)
        click.echo("interrupted", err=True)
        return getattr(error.__cause__, "exit_code", INTERRUPTED)  # click's Abort comes of what was raised
    except SystemExit as error:  # by click, when a pipe is closed; or by a user's code
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        return _failed(error, invocation)
    return code if isinstance(code, int) else 0


def _failed(error: Exception, invocation: Invocation) -> int:
    return PIPE_CLOSED if isinstance(error, BrokenPipeError) else show_error(error, invocation.debug)
