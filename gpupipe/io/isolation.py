"""``isolate: true``: files are read in a child process first, so that one that crashes its reader does not end the run.

Native parsers of damaged or hostile files may crash, hang or take all memory where they should raise an error. The
child reads every file once, as a run would; nothing of what it reads is used: the files are read again here, unchanged.
It is kept for further files, and replaced by another one after a file that ended it.
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
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.registry import FORMATS
from gpupipe.io.settings import TableSource

MODULE = "gpupipe.io.isolated_reader"
FIX = "the file is corrupt or malicious: rewrite it, or remove it from the source"
LEAST_SECONDS = 60.0
# What the slowest disk, and the slowest network, are taken to give: far below what readers do.
BYTES_PER_SECOND, REMOTE_BYTES_PER_SECOND = 4_000_000, 500_000
READ, REFUSED = b"read ", b"refused "

_child: Child | None = None
_tried: set[tuple[object, ...]] = set()  # settings and identity of the files that were read
_lock = threading.Lock()


def try_files(source: TableSource, files: Iterable[SourceFile]) -> None:
    """Read the files of an isolated source in a child process, each once for the state that it is in.

    A file may take 60 s, and 1 s for each 4 MB (0.5 MB if it is remote), and all memory that is free.

    Raises
    ------
    DataError
        If a file crashes its reader. What the reader refuses is refused again here.
    LimitError
        If reading a file takes more memory than is free.
    """
    if not source.isolate or not source.path:
        return
    fields = source.model_dump(mode="json", include=set(TableSource.model_fields) - {"isolate", "columns", "drop"})
    settings = json.dumps(fields, sort_keys=True)
    for file in files:
        state = (settings, *file.identity)
        if file.format in FORMATS and state not in _tried:
            _try(settings, file)
            _tried.add(state)


def end_trials() -> None:
    """End the child process; the next isolated source starts another."""
    global _child
    with _lock:
        child, _child = _child, None
    if child is not None:
        child.close()


def forget() -> None:
    """Forget which files were read: they are tried again."""
    _tried.clear()


def _try(settings: str, file: SourceFile) -> None:
    seconds = LEAST_SECONDS + file.size / (BYTES_PER_SECOND if file.remote is None else REMOTE_BYTES_PER_SECOND)
    try:
        reply = _kept_child().request(pickle.dumps((settings, file)), seconds)
    except ChildError as error:
        raise _blame(error, file.path) from error
    if reply not in (READ + os.fsencode(file.path), REFUSED + os.fsencode(file.path)):
        raise DataError("its reader gave another answer than read or refused", where=mask(file.path), fix=FIX)


def _kept_child() -> Child:
    global _child
    with _lock:
        if _child is None:
            # What is free now is what the run itself could take to read the file.
            _child = Child(MODULE, ChildLimits(LEAST_SECONDS, machine.memory().available))
        return _child


def _blame(error: ChildError, path: str) -> GpupipeError:
    if error.cause == "start":
        fix = "leave isolate out, if the files can be trusted"
        return GpupipeError(f"the process to read files in {error.how}\n{error.output}".rstrip(), fix=fix)
    if error.cause == "memory":
        fix = f"{FIX}; if it is as large as that, free memory or split it"
        return LimitError(f"its reader {error.how}", where=mask(path), fix=fix)
    return DataError(f"its reader {error.how}", where=mask(path), fix=FIX)
