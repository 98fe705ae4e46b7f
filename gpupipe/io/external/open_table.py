"""An open external table, optional libraries, and the translation of their errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, DataError, GpupipeError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.external.row_predicate import Condition
from gpupipe.io.files import mask, reason_of
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.system_errors import memory_shortage

_NOISE = re.compile(r"\x1b\[[0-9;]*m|^[A-Z_]+: |\[libpq\] |Query was:.*|\s*[.] SQLSTATE: \w+", re.DOTALL)


@dataclass(frozen=True)
class OpenTable:
    """Rows of an external table to be copied.

    - `label`: the table, without secrets
    - `pin`: the state of the table; ``""`` if only its content shows it
    - `settings`: see `gpupipe.io.table_copy.TableCopy`
    - `condition`: condition of the rows to copy, if `batches` may have others
    """

    label: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    pin: str = ""
    settings: Mapping[str, int] = field(default_factory=dict)
    condition: Condition | None = None


def load_library(module: str, name: str, extra: str, role: str = "source") -> Any:
    """Return an optional library; raise ConfigError that names the extra if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        what = f"{role}: {extra} needs {name}, which is not installed"
        raise ConfigError(what, where=role, fix=f"pip install 'gpupipe[{extra}]'") from None


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def convert_errors(what: str, where: str, fix: str, secrets: tuple[str, ...] = ()) -> Iterator[None]:
    """Convert any error of a library into one DataError: `what` and the reason, without `secrets`."""
    try:
        yield
    except GpupipeError:
        raise
    except Exception as error:  # the libraries have no common base class
        if (short := memory_shortage(error)) is not None:
            short.place(mask(where))
            raise short from None
        raise DataError(f"{what}: {_reason(error, secrets)}", where=mask(where), fix=fix) from None


def guard_batches(
    batches: Iterator[pa.RecordBatch], what: str, where: str, fix: str, secrets: tuple[str, ...] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield batches; errors of the library that reads them are converted as by `convert_errors`."""
    while True:
        with convert_errors(what, where, fix, secrets):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _reason(error: Exception, secrets: tuple[str, ...]) -> str:
    """Return the message of a library on one line, without colors, codes, the text of the query, and secrets."""
    text = "".join(c if c.isprintable() else " " for c in _NOISE.sub("", str(error)))
    for secret in secrets:
        text = text.replace(secret, "***")
    return reason_of(type(error)(text) if not text.strip() else Exception(text)).rstrip(" .")


def needed_columns(source: TableSource, names: Sequence[str], also: frozenset[str]) -> list[str]:
    """Return the columns to copy, in the order of the table.

    These are the columns of the result, of the row filter and of ``id:``, those in `also`, and those that ``drop:``
    names exactly, which may identify rows. All columns of a table of events, because ops name them.
    """
    if isinstance(source, JoinedTable) and not source.is_joined:
        return list(names)
    named = {*also, *source.drop, *(source.id if isinstance(source, Source) else ())}
    if isinstance(source, JoinedTable):
        named |= {*source.on.right}
    picked = {*ColumnFilter(source).pick(names)}
    return [name for name in names if name in picked or name in named] or list(names)


def describe_choice(names: Sequence[str], all_names: Sequence[str], condition: Condition | None) -> str:
    """Return a text that differs between two choices of columns and rows; "" for all of both."""
    if len(names) == len(all_names) and condition is None:
        return ""
    found = hashlib.sha256(repr((list(names), condition)).encode()).hexdigest()[:16]
    return f", {len(names)} of {len(all_names)} columns{'' if condition is None else ', filtered'} ({found})"
