"""Every error that gpupipe raises on purpose, and the exit code each one means.

    GpupipeError              1  internal: a bug of ours unless a subclass says otherwise
    ├── ConfigError           2  configuration or usage
    ├── LimitError            3  does not fit: memory, disk, a limit of the configuration
    ├── DeviceError           4  device requirement not met
    │   └── ClusterError      4  workers that cannot be had, or were lost
    ├── DataError             5  data unreadable
    │   ├── SchemaError       5  data readable, but not what the schema says
    │   └── ArtifactError     5  a model directory that is damaged, altered or of another format
    └── StoppedError    128 + n  asked to stop by signal n: 130 Ctrl-C, 143 SIGTERM

A message is one screen: *what* is wrong, *where*, and what to *do*. A traceback is shown with ``--debug`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    """

    exit_code = 1
    title = "Internal error"
    depends_on_rows = False  # whether other rows of the same table may settle it: a label that only they have

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(_message(what, where, fix))

    def place(self, where: str, instead: str = "") -> None:
        """Set `where`, if it is `instead` up to now: the caller often knows more than who raised the error."""
        if self.where == instead:
            old, new = _message(self.what, self.where, ""), _message(self.what, where, "")
            self.where, self.args = where, (str(self.args[0]).replace(old, new, 1),)

    def advise(self, fix: str) -> None:
        """Add another way out to what there is to do."""
        before, self.fix = self.fix, "; ".join(part for part in (self.fix, fix) if part)
        message = str(self.args[0])
        head = message[: -len(f"\n  to do: {before}")] if before else message
        self.args = (f"{head}\n  to do: {self.fix}",)

    def reword(self, change: Callable[[str], str]) -> None:
        """Apply `change` to every part of the message."""
        self.what, self.where, self.fix = map(change, (self.what, self.where, self.fix))
        self.args = tuple(change(part) if isinstance(part, str) else part for part in self.args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process whatever the constructor of a subclass asks for."""
        return _restored, (type(self), self.args), vars(self)


def _message(what: str, where: str, fix: str) -> str:
    lines = [what, f"  where: {where}" if where else "", f"  to do: {fix}" if fix else ""]
    return "\n".join(line for line in lines if line)


def _restored(kind: type[GpupipeError], args: tuple[Any, ...]) -> GpupipeError:
    return kind.__new__(kind, *args)


class ConfigError(GpupipeError):
    """The configuration or the command line is wrong (exit code 2).

    ``problems`` holds one line per mistake, so that all of them are shown at once.
    """

    exit_code = 2
    title = "Configuration error"

    def __init__(self, what: str, *, where: str = "", fix: str = "", problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *self.problems]), where=where, fix=fix)

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


def list_names(names: Sequence[str], n_shown: int = 3) -> str:
    """Return names for a message, as in ``"a, b, c and 4 more"``.

    Examples
    --------
    >>> list_names(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    shown = ", ".join(names[:n_shown])
    return shown if len(names) <= n_shown else f"{shown} and {len(names) - n_shown:,} more"
