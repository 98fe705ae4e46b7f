"""One contestant of the keyed comparison in a process of its own: its seconds, and its columns as files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.bench.clock import StageClock
from gpupipe.bench.keyed.events import Events, read

if TYPE_CHECKING:
    from gpupipe.bench.keyed.events import Columns

OURS, PANDAS, DOCUMENTED, POLARS = "gpupipe", "pandas", "pandas, as documented", "polars"

CONTESTANTS = {  # name -> where its function is: nobody loads the libraries of another one
    OURS: ("ours", "compiled"),
    PANDAS: ("with_pandas", "best"),
    DOCUMENTED: ("with_pandas", "as_documented"),
    POLARS: ("with_polars", "best"),
}


def run_contest(folder: Path, name: str, repeat: int) -> dict[str, Any]:
    """Run a contestant once to warm up, and `repeat` times more; write the columns of the last time into `folder`.

    Returns
    -------
    dict
        ``samples``: of each repetition the seconds of its stages.
    """
    module, function = CONTESTANTS[name]
    compute, events = getattr(import_module(f"gpupipe.bench.keyed.{module}"), function), read(folder)
    samples = []
    for _ in range(1 + repeat):
        clock = StageClock()
        columns = compute(events, clock)
        samples.append(clock.wall)
    _write(columns, events, folder / name)
    return {"samples": samples[1:]}


def _write(columns: Columns, events: Events, folder: Path) -> None:
    """Write the columns as float32, those of lines without the lines that have no customer."""
    import numpy as np

    known = events.key >= 0
    for group, made in columns.items():
        (folder / group).mkdir(parents=True, exist_ok=True)
        for name, values in made.items():
            of_all_lines = group != "joined back" and len(values) == len(known)
            np.save(folder / group / f"{name}.npy", (values[known] if of_all_lines else values).astype("float32"))
