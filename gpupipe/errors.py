"""Error classes and their exit codes. All of them are names of `gpupipe` too: ``gpupipe.DataError``.

    GpupipeError              1  internal: a bug of ours unless a subclass says otherwise
    ├── ConfigError           2  configuration or usage
    ├── LimitError            3  does not fit: memory, disk, a limit of the configuration
    ├── DeviceError           4  device requirement not met
    │   └── ClusterError      4  workers that cannot be had, or were lost
    ├── DataError             5  data unreadable
    │   ├── EncodingError     5  text in another encoding
    │   ├── FieldCountError   5  a CSV row with more or fewer fields than the header
    │   ├── QuoteError        5  a quotation mark that is never closed
    │   ├── RowSizeError      5  a row larger than the parser's block
    │   ├── SchemaError       5  data readable, but not what the schema says
    │   └── ArtifactError     5  a model directory that is damaged, altered or of another format
    └── StoppedError    128 + n  asked to stop by signal n: 130 Ctrl-C, 143 SIGTERM

A message is one screen: *what* is wrong, *where*, and what to *do*. A traceback is shown with ``--debug`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class GpupipeError(Exception):
    """Base of the family.

    Parameters
    ----------
    what : str
        One sentence: what is wrong.
    where : str, optional
        File, line, column, row, stage: whatever lets the reader find it.
    fix : str, optional
        What to do about it, as an instruction.
    names : iterable of str
        Columns, tables or values of the configuration that it is about, the most specific one last.
    """

    exit_code = 1
    title = "Internal error"
    depends_on_rows = False  # whether other rows of the same table may settle it: a label that only they have

    def __init__(self, what: str, *, where: str = "", fix: str = "", names: Iterable[str] = ()) -> None:
        self.what, self.where, self.fix, self.names = what, where, fix, tuple(names)
        super().__init__()

    def __str__(self) -> str:
        where, fix = self.where and f"  where: {self.where}", self.fix and f"  to do: {self.fix}"
        return "\n".join(line for line in (self.what, where, fix) if line)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def place(self, where: str, instead: str = "") -> None:
        """Set `where` if it is `instead` up to now: the caller often knows more than the code that raised the error."""
        if self.where == instead:
            self.where = where

    def advise(self, fix: str) -> None:
        """Add another way out to `fix`."""
        self.fix = "; ".join(part for part in (self.fix, fix) if part)

    def reword(self, change: Callable[[str], str]) -> None:
        """Apply `change` to every part of the message, and to the names."""
        self.what, self.where, self.fix = map(change, (self.what, self.where, self.fix))
        self.names = tuple(map(change, self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, whatever arguments the constructor of a subclass has."""
        return _restored, (type(self),), vars(self)


def _restored(kind: type[GpupipeError]) -> GpupipeError:
    return kind.__new__(kind)


class ConfigError(GpupipeError):
    """The configuration or the command line is wrong (exit code 2).

    ``problems`` holds one line per mistake, so that all of them are shown at once.
    """

    exit_code = 2
    title = "Configuration error"

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        names: Iterable[str] = (),
        problems: Iterable[str] = (),
    ) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *self.problems]), where=where, fix=fix, names=names)

    def reword(self, change: Callable[[str], str]) -> None:
        """Apply `change` to every part of the message."""
        super().reword(change)
        self.problems = tuple(map(change, self.problems))


class LimitError(GpupipeError):
    """The work does not fit into memory, on the disk, or within a limit of the configuration (exit code 3)."""

    exit_code = 3
    title = "Does not fit"


class DeviceError(GpupipeError):
    """A GPU was demanded and cannot be had (exit code 4)."""

    exit_code = 4
    title = "Device requirement not met"


class ClusterError(DeviceError):
    """The workers that were asked for cannot be had, or were lost with what they worked on (exit code 4)."""

    title = "Cluster error"


class DataError(GpupipeError):
    """A file cannot be read (exit code 5)."""

    exit_code = 5
    title = "Data error"


class EncodingError(DataError):
    """The text of a file is not in the encoding that it was read in (exit code 5).

    Parameters
    ----------
    what : str
    encoding : str
        The encoding that it was read in.
    likely : str
        An encoding that it may be in; ``""`` if none is likely.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, encoding: str, likely: str = "", *, where: str = "", fix: str = "") -> None:
        self.encoding, self.likely = encoding, likely
        super().__init__(what, where=where, fix=fix)


class FieldCountError(DataError):
    """A row of a CSV file has more or fewer fields than the header (exit code 5).

    Parameters
    ----------
    what : str
    row : int
        From 1, with the header and without blank lines.
    n_fields, n_columns : int
        Fields of the row, and of the header.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, row: int, n_fields: int, n_columns: int, *, where: str = "", fix: str = "") -> None:
        self.row, self.n_fields, self.n_columns = row, n_fields, n_columns
        super().__init__(what, where=where, fix=fix)


class QuoteError(DataError):
    """A quotation mark of a CSV file is never closed (exit code 5).

    Parameters
    ----------
    what : str
    row : int
        The row that opens it: from 1, with the header and without blank lines.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, row: int, *, where: str = "", fix: str = "") -> None:
        self.row = row
        super().__init__(what, where=where, fix=fix)


class RowSizeError(DataError):
    """A row of a text file does not fit into one block of its parser (exit code 5).

    Readers try larger blocks, up to 1 GiB, before they raise it.
    """


class SchemaError(DataError):
    """The data can be read but contradicts the schema (exit code 5)."""

    title = "Schema error"


class ArtifactError(DataError):
    """A model directory is damaged, was altered, or has a format that this version does not read (exit code 5)."""

    title = "Model error"


class StoppedError(GpupipeError):
    """The run was asked to stop, and did so at a safe point (exit code 128 + the number of the signal).

    Parameters
    ----------
    what : str
    signal_number : int
    where, fix : str
        See `GpupipeError`.
    """

    title = "Stopped"

    def __init__(self, what: str, signal_number: int, *, where: str = "", fix: str = "") -> None:
        self.exit_code = 128 + signal_number
        super().__init__(what, where=where, fix=fix)


class PredictionWarning(UserWarning):
    """No row of a column that a model predicts from is like its training rows: all levels unseen, all null, …

    Filter it with Python's ``warnings``: ``warnings.simplefilter("error", PredictionWarning)`` makes it an error.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'?"`` for the known name nearest to `name`, or ``""`` where none is near."""
    import difflib

    by_lower = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]!r}?" if near else ""
