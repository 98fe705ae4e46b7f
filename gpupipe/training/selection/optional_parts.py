"""Optional parts of a run, which come after the last training: a failure costs the part, not the run."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import DeviceError, GpupipeError, LimitError, StoppedError
from gpupipe.system_errors import shortage, translate
from gpupipe.timeline.timeline import Timeline

OUR_BUG = "this is a bug in gpupipe, or in a plug-in or your own code: log.jsonl has the traceback to report"


@contextmanager
def optional_part(timeline: Timeline, problem: str) -> Iterator[None]:
    """Warn if the ``with`` block fails, and continue; models, metrics and predictions do not depend on its results.

    `problem` says what is missing then, such as "the report was not written". See `ends_run` for other errors.
    """
    try:
        yield
    except Exception as error:
        if ends_run(error):
            raise
        note_failure(timeline, problem, error)


def ends_run(error: Exception) -> bool:
    """Return whether an error ends a run in every stage: a stop, a limit, an exhausted resource, a missing device."""
    is_of_run = isinstance(error, StoppedError | LimitError | DeviceError)
    return is_of_run or is_out_of_memory(error) or shortage(error) is not None


def note_failure(timeline: Timeline, problem: str, error: Exception) -> None:
    """Add a warning to the innermost open stage; log.jsonl also has the traceback."""
    found = error if isinstance(error, GpupipeError) else translate(error)
    texts = [describe_error(error), OUR_BUG]
    if found is not None and found.exit_code != GpupipeError.exit_code:
        texts = [text for text in (found.what, found.where, found.fix) if text]
    timeline.note_in_stage(f"{problem}: {'; '.join(texts)}", "warning", "".join(traceback.format_exception(error)))


def describe_error(error: Exception) -> str:
    """Return the class and the message of an error; the message alone of an error of gpupipe."""
    return error.what if isinstance(error, GpupipeError) else f"{type(error).__name__}: {error}"
