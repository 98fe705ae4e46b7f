"""``isolate: true``: files are read in a process of their own first, so that one that ends its reader ends no run.

Native parsers of damaged or hostile files may crash, or take all memory, where they should say so. Nothing of what the
process reads is used: the files are read again here, unchanged. That costs a second reading and half a second.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from gpupipe.errors import DataError, GpupipeError
from gpupipe.readers.files import SourceFile, find_files, mask
from gpupipe.readers.formats import FORMATS, load_reader
from gpupipe.readers.settings import TableSource

FIX = "it is damaged, or made to do harm: write it again, or take it out of the source"


def try_files(source: TableSource, base_dir: Any = None) -> None:
    """Read the files of a source that is to be isolated in another process, once for each state that they are in.

    Raises
    ------
    DataError
        If a file is absent, or that process ends on one, which is named. What it refuses is refused here again.
    """
    if source.isolate and source.path:
        files = find_files(source, base_dir)
        fields = source.model_dump(mode="json", include=set(TableSource.model_fields) - {"isolate", "columns", "drop"})
        states = tuple(file.identity for file in files)
        _try(json.dumps([fields, str(base_dir or ".")]), states)


@lru_cache
def _try(order: str, states: Sequence[tuple[str, int, int, str, int, int]]) -> None:
    command = [sys.executable, "-m", "gpupipe.readers.trial"]
    done = subprocess.run(command, input=order, capture_output=True, text=True, check=False)
    if done.returncode >= 0:
        return
    name = signal.Signals(-done.returncode).name
    path = mask(json.loads(done.stdout.splitlines()[-1])) if done.stdout else "before the first file"
    if name == "SIGKILL":
        raise DataError("the reader was killed on it, as where memory runs out", where=path, fix=FIX)
    raise DataError(f"the reader crashed on it ({name})", where=path, fix=FIX)


def main() -> None:
    """Read every file of the source on standard input; say the path of each before."""
    from gpupipe.readers.notes import Notes
    from gpupipe.readers.wanted import Wanted

    fields, base_dir = json.load(sys.stdin)
    source = TableSource.model_validate(fields)
    for file in find_files(source, base_dir):
        print(json.dumps(file.path), flush=True)
        if file.format in FORMATS:
            try:
                for _ in _parts(file, Wanted(source), source, Notes()):
                    pass
            except GpupipeError:  # the process that has asked will see it
                continue


def _parts(file: SourceFile, wanted: Any, source: TableSource, notes: Any) -> Iterator[Any]:
    if file.format != "parquet":
        yield load_reader(file.format)(file, wanted, source, notes)
        return
    from gpupipe.readers.footers import read_groups_of
    from gpupipe.readers.parquet import read_groups

    n_groups = len(read_groups_of(file, source).decoded)
    yield from read_groups(file, wanted, notes, [[group] for group in range(n_groups)])


if __name__ == "__main__":
    main()
