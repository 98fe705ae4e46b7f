"""Command line. Each command is one module here and one line in `COMMANDS`, imported when it is invoked."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from gpupipe.cli.errors import INTERRUPTED, show_error
from gpupipe.cli.streams import standard_streams
from gpupipe.errors import did_you_mean
from gpupipe.version import __version__

PIPE_CLOSED = 0  # exit code of `gpupipe schema | head -1`, whose reader closes the pipe early

COMMANDS = {
    "run": "Train, evaluate and export models as a configuration describes.",
    "predict": "Score a table with a trained model.",
    "explain": "Write how much each column contributes to each prediction.",
    "drift": "Compare a table with the training rows of a model.",
    "evaluate": "Measure a model on new rows; estimate its metrics where labels are not known yet.",
    "update": "Train a challenger of a model on new rows, and compare both.",
    "serve": "Serve predictions of a model over HTTP.",
    "export": "Copy a trained model into a separate folder and verify it.",
    "promote": "Make a model the current one of a folder of generations.",
    "rollback": "Return to the generation of a folder that was current before.",
    "history": "List the generations of a model or folder, with their verdicts and promotions.",
    "verify": "Check that a model predicts on this machine what it predicted in training.",
    "sign": "Sign a model, with its provenance and bill of materials.",
    "reproduce": "Repeat a run, and compare every file with those of the run.",
    "runs": "List runs: target, best model, metric, device and time of each.",
    "compare": "Compare runs: metrics with intervals, settings, columns, data and versions.",
    "diff": "Compare two models, and their predictions for the same rows.",
    "dossier": "Write material for the technical documentation of a run.",
    "open": "Open the report of a run in the browser.",
    "init": "Read a table and write a starter configuration for it.",
    "check": "Check a configuration and a sample of its data, without training.",
    "plan": "Predict the stages, devices and memory of a run.",
    "gpus": "List GPUs, and what a configuration needs, takes and costs on each.",
    "doctor": "Report the hardware and libraries of this machine, with fixes for what is broken.",
    "bench": "Time a configuration against hand-written scripts.",
    "kernels": "List, test or compile the feature kernels.",
    "schema": "Print the JSON Schema of the configuration, for editors.",
}


class LazyGroup(click.Group):
    """Group of the commands in `COMMANDS`, each the ``command`` of gpupipe.cli.NAME, imported when invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gpupipe.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of a word, for shells, without importing the commands."""
        names = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command for `args`; the error about an unknown name suggests the closest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"the commands are {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@dataclass
class Invocation:
    """Options of the command group."""

    debug: bool = False


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
@click.version_option(__version__, message="gpupipe %(version)s")
@click.pass_obj
def cli(invocation: Invocation, debug: bool) -> None:
    """Tables to a trained, portable model: one YAML for the GPU, the laptop and the cluster.

    Start with `gpupipe init DATA --target COLUMN`, then `gpupipe run CONFIG`.
    """
    invocation.debug = debug


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: ``sys.argv``) and return the exit code.

    0 success, 1 internal error, a condition of `gpupipe diff` or a difference of `gpupipe reproduce`, 2 configuration
    or usage, 3 does not fit, 4 device requirement not met, 5 data, 130 interrupted, 143 terminated.
    """
    invocation = Invocation()
    if args is None:
        # Keep the current folder off sys.path of Python processes that Dask, joblib and others start.
        os.environ.setdefault("PYTHONSAFEPATH", "1")
        # The collections at the end of a process take 0.2 s after an import of scikit-learn, and free what ends anyway.
        atexit.register(gc.freeze)
    with standard_streams():
        code = copy_context().run(_run, args, invocation)  # what options set ends with the command, also with an error
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
        if isinstance(error.__cause__, EOFError):  # click assumes that the user ended the input
            return show_error(error.__cause__, invocation.debug)
        click.echo("interrupted", err=True)
        return getattr(error.__cause__, "exit_code", INTERRUPTED)  # click raises Abort from the original exception
    except SystemExit as error:  # from click, when a pipe is closed, or from user code
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        if _is_interruption(error):
            click.echo("interrupted", err=True)
            return INTERRUPTED
        return _failed(error, invocation)
    return code if isinstance(code, int) else 0


def _is_interruption(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error: NumPy's C code, for example, raises a ValueError in its place."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _failed(error: Exception, invocation: Invocation) -> int:
    return PIPE_CLOSED if isinstance(error, BrokenPipeError) else show_error(error, invocation.debug)
