"""Display of an error on one screen: what is wrong, where, and what to do."""

from __future__ import annotations

import re
import sys
import traceback

from gpupipe.errors import GpupipeError
from gpupipe.report.text import printable
from gpupipe.system_errors import translate

MOST = 800  # characters of a line
INTERRUPTED = 130  # 128 + SIGINT, the convention of shells


def show_error(error: Exception, debug: bool) -> int:
    """Print `error` to stderr, as a panel on a terminal and as plain text elsewhere, and return its exit code."""
    if debug:
        traceback.print_exception(error)
    if not isinstance(error, GpupipeError):
        error = translate(error) or error
    if isinstance(error, GpupipeError):
        title, text, code = error.title, str(error), error.exit_code
    else:
        title, text, code = GpupipeError.title, f"{type(error).__name__}: {error}", GpupipeError.exit_code
    if code == GpupipeError.exit_code and not debug:
        text += "\n  to do: this is a bug in gpupipe; run `gpupipe --debug ...` for the traceback, and report it"
    text = printable(_masked(text), keep="\n")  # quoted data must not control the terminal
    text = "\n".join(line if len(line) <= MOST else f"{line[:MOST]}..." for line in text.split("\n"))
    if sys.stderr.isatty():
        _show_panel(title, text)
    else:
        print(f"{title}: {text}", file=sys.stderr)
    return code


def _masked(text: str) -> str:
    """Return a text without the credentials in its URLs."""
    try:
        from gpupipe.io.files import mask  # here: `--help` does not need it
    except (ImportError, MemoryError):  # no further library can be loaded, which may be the error itself
        return re.sub(r"://\S+", "://***", text)
    return mask(text)


def _show_panel(title: str, text: str) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    Console(stderr=True).print(Panel(Text(text), title=title, title_align="left", border_style="red"))
