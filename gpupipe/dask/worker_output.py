"""What workers of this machine print: kept in files, and shown when one of them is lost.

They inherit the output of the process that leads, which is the run's own: what XGBoost says of its ranks, or a library
prints by the way, would stand between our stages, or inside the document that ``--json`` promises.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = "GPUPIPE_WORKER_OUTPUT"  # in the environment of workers that we start; others keep their output
LINES_SHOWN, BYTES_SHOWN = 5, 2000


@contextmanager
def collected() -> Iterator[Path]:
    """Yield the folder for what workers print that are started in the ``with`` block; it is gone afterwards."""
    import dask

    setting = f"distributed.nanny.environ.{FOLDER}"
    with TemporaryDirectory(prefix="gpupipe-workers-") as folder, dask.config.set({setting: folder}):
        yield Path(folder)


def divert(address: str) -> None:
    """Have what this process prints from now on, libraries of C included, go into a file of its own.

    Parameters
    ----------
    address : str
        Of the worker that this process is.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    file = os.open(_file(Path(folder), address), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def last_words(folder: Path | None, address: str) -> str:
    """Return what a worker printed last, to be put behind what is said of its end; ``""`` if that was nothing."""
    try:
        printed = b"" if folder is None else _file(folder, address).read_bytes()[-BYTES_SHOWN:]
    except OSError:
        return ""
    lines = [line for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return "".join(f"\n  it printed: {line.strip()}" for line in lines[-LINES_SHOWN:])


def _file(folder: Path, address: str) -> Path:
    return folder / f"{address.rpartition('/')[2].replace(':', '_')}.log"
