"""Error classes and their exit codes. All of them are also importable from `gpupipe`: ``gpupipe.DataError``.

    GpupipeError              1  internal error: a bug in gpupipe, unless it is one of the subclasses below
    ├── ConfigError           2  configuration or usage
    ├── LimitError            3  does not fit: memory, disk, a configured limit
    ├── DeviceError           4  device requirement not met
    │   └── ClusterError      4  workers unavailable or lost
    ├── DataError             5  data unreadable
    │   ├── EncodingError     5  text in a different encoding
    │   ├── FieldCountError   5  a CSV row with more or fewer fields than the header
    │   ├── QuoteError        5  an unclosed quotation mark
    │   ├── RowSizeError      5  a row larger than the parser's block
    │   ├── SchemaError       5  readable data that contradicts the schema
    │   │   └── RowError      5  rows given to a scorer, with each wrong cell
    │   └── ArtifactError     5  a corrupt, altered or unsupported model directory
    ├── QualityError          6  complete run that misses a limit, or challenger that is not better
    └── StoppedError    128 + n  stopped by signal n: 130 Ctrl-C, 143 SIGTERM

A message has three parts and fits on one screen: *what* is wrong, *where*, and what to *do*. The command line shows
tracebacks only with ``--debug``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ROWS_COUNTED = "rows are counted from 0"
"""Location of row numbers in messages, which are those of `problems`, of files of rows and of ``iloc``."""


class GpupipeError(Exception):
    """Base class of all errors that gpupipe raises.

    Parameters
    ----------
    what : str
        One sentence: what is wrong.
    where : str, optional
        The location: file, line, column, row or stage.
    fix : str, optional
        The way out, as an instruction.
    names : iterable of str
        The columns, tables or configuration values involved, the most specific one last.

    Attributes
    ----------
    exit_code : int
        Exit code of the command line.
    title : str
        Heading of the message on the command line.

    Examples
    --------
    >>> import gpupipe as gp
    >>> print(gp.GpupipeError("the column is empty", where="people.csv: age", fix="drop it"))
    the column is empty
      where: people.csv: age
      to do: drop it
    """

    exit_code = 1
    title = "Internal error"
    depends_on_rows = False  # True if a larger sample of the same table may resolve it, such as a label missing here

    def __init__(self, what: str, *, where: str = "", fix: str = "", names: Iterable[str] = ()) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        self.names = tuple(names)
        super().__init__()

    def __str__(self) -> str:
        where, fix = self.where and f"  where: {self.where}", self.fix and f"  to do: {self.fix}"
        return "\n".join(line for line in (self.what, where, fix) if line)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def place(self, where: str, instead: str = "") -> None:
        """Set `where` if it still is `instead`: callers often know the location more exactly than the raising code."""
        if self.where == instead:
            self.where = where

    def advise(self, fix: str) -> None:
        """Append another way out to `fix`."""
        self.fix = "; ".join(part for part in (self.fix, fix) if part)

    def reword(self, change: Callable[[str], str]) -> None:
        """Apply `change` to every part of the message and to the names."""
        self.what, self.where, self.fix = map(change, (self.what, self.where, self.fix))
        self.names = tuple(map(change, self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, independently of the constructor arguments of subclasses."""
        return _restored, (type(self),), vars(self)


def _restored(kind: type[GpupipeError]) -> GpupipeError:
    return kind.__new__(kind)


class ConfigError(GpupipeError):
    """Error in the configuration, an argument or the command line (exit code 2).

    Parameters
    ----------
    what : str
    where, fix, names
        See `GpupipeError`.
    problems : iterable of str
        One line per error found, so that all of them are shown at once.

    Examples
    --------
    >>> import gpupipe as gp
    >>> try:
    ...     gp.Pipeline("people.csv", target="income", device="gpus", features=[{"standardise": "age"}])
    ... except gp.ConfigError as error:
    ...     print(error)
    2 errors in the settings:
    device: expected 'auto', 'cpu' or 'gpu', got 'gpus'; did you mean 'gpu'?
    features[0].standardise: unknown feature op; did you mean 'standardize'?
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
    """Work that does not fit into memory, onto the disk, or into a configured limit (exit code 3).

    Examples
    --------
    >>> import gpupipe as gp
    >>> gp.LimitError("the disk is full", fix="free some space").exit_code
    3
    """

    exit_code = 3
    title = "Does not fit"


class DeviceError(GpupipeError):
    """Device requirement that this machine does not meet, such as ``device: gpu`` without a GPU (exit code 4).

    Examples
    --------
    >>> import gpupipe as gp
    >>> issubclass(gp.ClusterError, gp.DeviceError), gp.DeviceError.exit_code
    (True, 4)
    """

    exit_code = 4
    title = "Device requirement not met"


class ClusterError(DeviceError):
    """Cluster workers that cannot be reached or were lost (exit code 4)."""

    title = "Cluster error"


class DataError(GpupipeError):
    """Data that cannot be read or used (exit code 5).

    Examples
    --------
    >>> import gpupipe as gp
    >>> try:
    ...     gp.Pipeline("absent.csv", target="y").features()
    ... except gp.DataError as error:
    ...     print(error.what)
    no such file or folder
    """

    exit_code = 5
    title = "Data error"


class EncodingError(DataError):
    """Text that cannot be decoded with the encoding used (exit code 5).

    Parameters
    ----------
    what : str
    encoding : str
        The encoding used.
    likely : str
        The likely encoding of the text; ``""`` if none is likely.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, encoding: str, likely: str = "", *, where: str = "", fix: str = "") -> None:
        self.encoding, self.likely = encoding, likely
        super().__init__(what, where=where, fix=fix)


class FieldCountError(DataError):
    """CSV row with more or fewer fields than the header (exit code 5).

    Parameters
    ----------
    what : str
    line : int
        Line of the file, counted from 1; the header counts, blank lines do not.
    n_fields, n_columns : int
        Number of fields in the line, and in the header.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, line: int, n_fields: int, n_columns: int, *, where: str = "", fix: str = "") -> None:
        self.line = line
        self.n_fields = n_fields
        self.n_columns = n_columns
        super().__init__(what, where=where, fix=fix)


class QuoteError(DataError):
    """Quotation mark in a CSV file that is never closed (exit code 5).

    Parameters
    ----------
    what : str
    line : int
        The line that opens it, counted from 1; the header counts, blank lines do not.
    where, fix : str
        See `GpupipeError`.
    """

    def __init__(self, what: str, line: int, *, where: str = "", fix: str = "") -> None:
        self.line = line
        super().__init__(what, where=where, fix=fix)


class RowSizeError(DataError):
    """Row of a text file that does not fit into one block of the parser (exit code 5).

    Readers retry with larger blocks, up to 1 GiB, before they raise this error.
    """


class SchemaError(DataError):
    """Readable data that contradicts the schema (exit code 5)."""

    title = "Schema error"


@dataclass(frozen=True)
class CellProblem:
    """A cell that a model cannot predict from."""

    row: int  # number of the row among the given ones, from 0, as in the text
    column: str
    value: str  # the value as text, shortened; ``"absent"`` if the row does not have the column
    rule: str  # what the value must be: ``"a number"``, or the violated rule such as ``"range: [0, 72]"``

    def __str__(self) -> str:
        return f"row {self.row:,}, column {self.column!r}: expected {self.rule}; found {self.value}"


class RowError(SchemaError):
    """Rows that a scorer cannot predict: a column is absent, or a value violates its kind or a rule (exit code 5).

    Parameters
    ----------
    problems : sequence of CellProblem
        The cells; the message lists the first ones.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from gpupipe.errors import CellProblem
    >>> print(gp.RowError([CellProblem(0, "tenure", "-1", "range: [0, 72]")]))
    row 0, column 'tenure': expected range: [0, 72]; found -1
      where: rows are counted from 0
      to do: correct the values, or make them null
    """

    MOST_SHOWN = 8

    def __init__(self, problems: Sequence[CellProblem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[: self.MOST_SHOWN]]
        if more := len(self.problems) - len(lines):
            lines.append(f"and {more:,} more cells")
        names = dict.fromkeys(problem.column for problem in self.problems)
        super().__init__("\n".join(lines), where=ROWS_COUNTED, fix="correct the values, or make them null", names=names)


class ArtifactError(DataError):
    """Model directory that is corrupt, was altered, or has a format that this version cannot read (exit code 5)."""

    title = "Model error"


class QualityError(GpupipeError):
    """Complete run that misses a limit of ``evaluate.fail_on``, or challenger that is not better (exit code 6).

    `run` is the `gpupipe.Run` that misses a limit; None otherwise.
    """

    exit_code = 6
    title = "Quality limit missed"
    run: Any = None


class StoppedError(GpupipeError):
    """Run that stopped at a safe point after a signal (exit code 128 + signal number).

    Parameters
    ----------
    what : str
    signal_number : int
        2 for Ctrl-C, 15 for SIGTERM.
    where, fix : str
        See `GpupipeError`.

    Examples
    --------
    >>> import gpupipe as gp
    >>> gp.StoppedError("the run was stopped by Ctrl-C", 2).exit_code
    130
    """

    title = "Stopped"

    def __init__(self, what: str, signal_number: int, *, where: str = "", fix: str = "") -> None:
        self.exit_code = 128 + signal_number
        super().__init__(what, where=where, fix=fix)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'?"`` for the closest known name, or how one differs that looks the same, or ``""``."""
    import difflib

    known = list(known)
    if hint := describe_spelling(name, known):
        return hint
    by_lower = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]!r}?" if near else ""


def describe_spelling(name: str, known: Iterable[str]) -> str:
    """Return how `name` differs from the known name that looks the same, ``""`` if none does.

    >>> describe_spelling("x", [" x"])
    "the names 'x' and ' x' differ in the blanks around them: rename one of them"
    """
    from unicodedata import normalize

    known, plain = list(known), normalize("NFC", name.strip())
    other = next((each for each in known if normalize("NFC", each.strip()) == plain), None)
    if other is None or name in known:
        return ""
    if name.strip() == other.strip():
        return f"the names {name!r} and {other!r} differ in the blanks around them: rename one of them"
    what = f"the names {name!a} and {other!a} look equal but differ in Unicode normalization"
    return f"{what}: rename one of them, as with unicodedata.normalize('NFC', name)"
