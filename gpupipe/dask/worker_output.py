"""Output of the workers of this machine: captured in files, and shown when a worker is lost.

Workers inherit the driver's output. Without the capture, lines that XGBoost and other libraries print would appear
between the stages, or inside the document of ``--json``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = "GPUPIPE_WORKER_OUTPUT"  # in the environment of workers started here; others keep their output
LINES_SHOWN, BYTES_SHOWN = 5, 2000


@contextmanager
def capture_output() -> Iterator[Path]:
    """Yield the folder for the output of workers started in the ``with`` block; it is removed on exit."""
    import dask

    setting = f"distributed.nanny.environ.{FOLDER}"
    with TemporaryDirectory(prefix="gpupipe-workers-") as folder, dask.config.set({setting: folder}):
        yield Path(folder)


def redirect_output(address: str) -> None:
    """Redirect the output of this process, including that of C libraries, to its own file."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    file = os.open(_file(Path(folder), address), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def last_output(folder: Path | None, address: str) -> str:
    """Return the last lines that a worker printed, to append to a message; ``""`` if there are none."""
    try:
        printed = b"" if folder is None else _file(folder, address).read_bytes()[-BYTES_SHOWN:]
    except OSError:
        return ""
    lines = [line for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return "".join(f"\n  it printed: {line.strip()}" for line in lines[-LINES_SHOWN:])


def _file(folder: Path, address: str) -> Path:
    return folder / f"{address.rpartition('/')[2].replace(':', '_')}.log"
