"""Isolated trial reads (``isolate: true``): read files in a child process first, so a crash does not end the run.

Native parsers may crash, hang or exhaust memory on corrupt or malicious files instead of raising an error. The child
reads every file once, as a run would, and discards the result; this process then reads the unchanged files again. The
child is reused for further files, and restarted after a file that ended it.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Iterable

from gpupipe.backends import machine
from gpupipe.children import Child, ChildError, ChildLimits
from gpupipe.errors import DataError, GpupipeError, LimitError
from gpupipe.io.file_formats import has_reader
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.settings import TableSource

MODULE = "gpupipe.io.isolated_reader"
FIX = "the file is corrupt or malicious: rewrite it, or remove it from the source"
LEAST_SECONDS = 60.0
# Assumed throughput of the slowest disk and network, far below that of the readers.
BYTES_PER_SECOND, REMOTE_BYTES_PER_SECOND = 4_000_000, 500_000
READ, REFUSED = b"read ", b"refused "

_child: Child | None = None
_tried: set[tuple[object, ...]] = set()  # settings and identities of files already read
_lock = threading.Lock()


def try_files(source: TableSource, files: Iterable[SourceFile]) -> None:
    """Read the files of an isolated source in a child process, once per settings and identity of a file.

    The limits per file are 60 s plus 1 s per 4 MB (per 0.5 MB for a remote file), and the available memory. Raise
    DataError if a file crashes its reader. An ordinary read error is not raised here, but when this process reads the
    file. Raise LimitError if reading a file needs more than the available memory.
    """
    if not source.isolate or not source.path:
        return
    fields = source.model_dump(mode="json", include=set(TableSource.model_fields) - {"isolate", "columns", "drop"})
    settings = json.dumps(fields, sort_keys=True)
    for file in files:
        state = (settings, *file.identity)
        if has_reader(file.format) and state not in _tried:
            _try(settings, file)
            _tried.add(state)


def end_trials() -> None:
    """End the child process; the next isolated source starts a new one."""
    global _child
    with _lock:
        child, _child = _child, None
    if child is not None:
        child.close()


def forget() -> None:
    """Clear the record of files already read."""
    _tried.clear()


def _try(settings: str, file: SourceFile) -> None:
    seconds = LEAST_SECONDS + file.size / (BYTES_PER_SECOND if file.remote is None else REMOTE_BYTES_PER_SECOND)
    try:
        reply = _running_child().request(pickle.dumps((settings, file)), seconds)
    except ChildError as error:
        raise _blame(error, file.path) from error
    if reply not in (READ + os.fsencode(file.path), REFUSED + os.fsencode(file.path)):
        raise DataError("its reader sent an invalid reply", where=mask(file.path), fix=FIX)


def _running_child() -> Child:
    global _child
    with _lock:
        if _child is None:
            # The memory available now is what the run itself could use to read the file.
            _child = Child(MODULE, ChildLimits(LEAST_SECONDS, machine.memory().available))
        return _child


def _blame(error: ChildError, path: str) -> GpupipeError:
    if error.cause == "start":
        fix = "if the files can be trusted, set isolate: false"
        return GpupipeError(f"the process for isolated reads {error.how}\n{error.output}".rstrip(), fix=fix)
    if error.cause == "memory":
        fix = f"{FIX}; if the file really is that large, free memory or split it"
        return LimitError(f"its reader {error.how}", where=mask(path), fix=fix)
    return DataError(f"its reader {error.how}", where=mask(path), fix=FIX)
