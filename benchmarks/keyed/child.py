"""Child process that computes the keyed features: ``python -m benchmarks.keyed.child FOLDER NAME --json OUT``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.keyed.event_log import EventLog, read
from gpupipe.bench.child import write_document
from gpupipe.bench.clock import StageClock

if TYPE_CHECKING:
    from benchmarks.keyed.event_log import Columns

GPUPIPE = "gpupipe"
PANDAS = "pandas"
DOCUMENTED = "pandas, as documented"
POLARS = "polars"
# name → module and function: a child imports only the libraries of its implementation
IMPLEMENTATIONS = {
    GPUPIPE: ("benchmarks.keyed.gpupipe_features", "compiled"),
    PANDAS: ("benchmarks.peers.keyed_pandas", "best"),
    DOCUMENTED: ("benchmarks.peers.keyed_pandas", "as_documented"),
    POLARS: ("benchmarks.peers.keyed_polars", "best"),
}


def make_columns(folder: Path, name: str, repeat: int) -> dict[str, Any]:
    """Run an implementation once as a warm-up, then `repeat` times; write the columns of the last run to `folder`.

    Returns
    -------
    dict
        ``samples``: the seconds of each stage per repetition.
    """
    module, function = IMPLEMENTATIONS[name]
    compute, events = getattr(import_module(module), function), read(folder)
    samples = []
    for _ in range(1 + repeat):
        clock = StageClock()
        columns = compute(events, clock)
        samples.append(clock.wall)
    _write(columns, events, folder / name)
    return {"samples": samples[1:]}


def _write(columns: Columns, events: EventLog, folder: Path) -> None:
    """Write the columns as float32; columns with a value per event skip events without a customer."""
    import numpy as np

    known = events.key >= 0
    for group, made in columns.items():
        (folder / group).mkdir(parents=True, exist_ok=True)
        for name, values in made.items():
            of_all_lines = group != "joined back" and len(values) == len(known)
            np.save(folder / group / f"{name}.npy", (values[known] if of_all_lines else values).astype("float32"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the seconds of one implementation, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyed.child", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the event log; the columns are written here too")
    parser.add_argument("name", choices=list(IMPLEMENTATIONS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    return write_document(lambda: make_columns(options.folder, options.name, options.repeat), options.json)


if __name__ == "__main__":
    sys.exit(main())
