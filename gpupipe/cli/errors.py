"""Display of an error on one screen: what is wrong, where, and what to do."""

from __future__ import annotations

import re
import sys
import traceback
from importlib.util import find_spec

from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.report.text import printable
from gpupipe.system_errors import translate

MOST = 800  # characters of a line
INTERRUPTED = 130  # 128 + SIGINT, the convention of shells

# Modules that an environment for serving does not have, by what installs them.
MODULES = {
    "gpupipe": (
        "fsspec", "jinja2", "joblib", "numba", "packaging", "pandas", "pyarrow", "rich", "scipy",
        "sklearn", "threadpoolctl",
    ),
    "gpupipe[cluster]": ("dask", "distributed"),
    "gpupipe[cpu]": ("xgboost",),
    "gpupipe[catboost]": ("catboost",),
    "gpupipe[delta]": ("deltalake",),
    "gpupipe[iceberg]": ("pyiceberg",),
    "gpupipe[lightgbm]": ("lightgbm",),
    "gpupipe[sql]": ("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "duckdb", "sqlglot"),
    "gpupipe[serve]": ("httptools", "orjson", "starlette", "uvicorn", "uvloop"),
    "gpupipe[torch]": ("onnx", "onnxruntime", "safetensors", "torch"),
}  # fmt: skip


def show_error(error: Exception, debug: bool) -> int:
    """Print `error` to stderr, as a panel on a terminal and as plain text elsewhere, and return its exit code."""
    if debug:
        traceback.print_exception(error)
    if not isinstance(error, GpupipeError):
        error = translate(error) or _missing_library(error) or error
    if isinstance(error, GpupipeError):
        title = error.title
        text = str(error)
        code = error.exit_code
    else:
        title = GpupipeError.title
        text = f"{type(error).__name__}: {error}"
        code = GpupipeError.exit_code
    if code == GpupipeError.exit_code and not debug:
        text += "\n  to do: this is a bug in gpupipe; run `gpupipe --debug ...` for the traceback, and report it"
    text = printable(_masked(text), keep="\n")  # quoted data must not control the terminal
    text = "\n".join(line if len(line) <= MOST else f"{line[:MOST]}..." for line in text.split("\n"))
    if sys.stderr.isatty() and find_spec("rich") is not None:
        _show_panel(title, text)
    else:
        print(f"{title}: {text}", file=sys.stderr)
    return code


def _missing_library(error: Exception) -> ConfigError | None:
    """Return the error about a library that is not installed; None if `error` is about something else."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    for package, modules in MODULES.items():
        if module in modules:
            what = f"this command needs the library {module}, which is not installed in this environment"
            install = f"pip install '{package}'" if "[" in package else f"pip install {package}"
            return ConfigError(what, fix=f"{install}; an environment for serving has few libraries")
    return None


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
