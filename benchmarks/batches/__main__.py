"""Rows per second of mini-batches, compared with PyTorch's loaders: ``python -m benchmarks.batches``.

A matrix of float32 columns and a target of class codes feed an identity model in shuffled batches. The implementations
run one after the other in one process, in several turns; a turn is an epoch, or the part of one that fits into
`--seconds`. It includes drawing the order of the rows. The result is the median of the turns. Data that an
implementation keeps in memory is prepared beforehand; for gpupipe that is a row-major copy, whose time is printed.

``gpupipe``                  column-major data, copied once to row-major; one gather per batch
``permutation and index``    hand-written torch.randperm and X[rows]
``DataLoader``               of a TensorDataset: single rows, combined by collate
``DataLoader, BatchSampler`` a batch of rows per index, as documented for batched reading
``DataLoader, pandas rows``  of a Dataset that reads frame.iloc[row]

With a GPU, the batches are moved to it, and the share of its time that it spends between training steps is measured
too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupipe.bench.measurement import describe_machine
from gpupipe.files.jsonfile import write_json

ROWS = 1_000_000
COLUMNS = 57
BATCH_SIZE = 4096
TURNS = 5
SECONDS = 3.0


def compare(
    n_rows: int,
    n_columns: int,
    batch_size: int,
    turns: int,
    seconds: float,
    device: str,
    save: Callable[[Mapping[str, Any]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Return the rows per second of all implementations, and gpupipe's speed relative to each.

    `save` is called with the results after each turn.
    """
    # Otherwise PyTorch's idle threads spin, which makes indexing and collating many times slower on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from benchmarks.batches.idle_time import share_between_steps
    from benchmarks.batches.loaders import GPUPIPE, UNSHUFFLED, on_device, on_host, table
    from gpupipe.tensors.batches import Batches

    X, y = table(n_rows, n_columns)
    started = time.perf_counter()
    Batches((X, y), batch_size)
    made = time.perf_counter() - started
    loaders = (on_host if device == "cpu" else on_device)(X, y, batch_size)
    samples: dict[str, list[float]] = {name: [] for name in loaders}
    head = {
        "rows": n_rows, "columns": n_columns, "batch_size": batch_size, "seconds_at_most": seconds,
        "device": device if device == "cpu" else torch.cuda.get_device_name(), "machine": describe_machine(),
        "torch": torch.__version__, "torch_threads": torch.get_num_threads(), "seconds_of_the_copy": made,
    }  # fmt: skip

    def figures_of(n_turns: int) -> dict[str, Any]:
        rates = {name: statistics.median(found) for name, found in samples.items()}
        like = {name: UNSHUFFLED if "unshuffled" in name else GPUPIPE for name in rates}
        times = {name: rates[like[name]] / rate for name, rate in rates.items()}
        return {**head, "turns": n_turns, "rows_per_second": rates, "ours_times": times, "samples": samples}

    for turn in range(turns):
        for name, loader in loaders.items():
            print(f"turn {turn + 1} of {turns}: {name}", file=sys.stderr, flush=True)
            samples[name].append(rows_per_second(loader, seconds, device))
        save(figures_of(turn + 1))
    figures = figures_of(turns)
    if device != "cpu":
        figures["between_steps"] = {name: share_between_steps(loader, n_columns) for name, loader in loaders.items()}
    return figures


def rows_per_second(loader: Iterable[tuple[Any, Any]], seconds: float, device: str) -> float:
    """Return the rows per second that an identity model receives, over an epoch or `seconds`."""
    import torch

    model, rows = torch.nn.Identity(), 0
    started = time.perf_counter()
    for X, _ in loader:
        rows += len(model(X))
        if time.perf_counter() - started > seconds:
            break
    if device != "cpu":
        torch.cuda.synchronize()
    return rows / (time.perf_counter() - started)


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results as a table."""
    load = figures["machine"]["load_average"][0]
    head = (
        f"{figures['rows']:,} rows, {figures['columns']} columns, batches of {figures['batch_size']:,}, "
        f"{figures['device']}, PyTorch {figures['torch']} with {figures['torch_threads']} threads, load {load:.1f}; "
        f"row-major copy {figures['seconds_of_the_copy']:.2f} s"
    )
    between = figures.get("between_steps", {})
    lines = [f"{'':<26}{'million rows/s':>16}{'gpupipe is':>14}" + (f"{'between steps':>16}" if between else "")]
    for name, rate in figures["rows_per_second"].items():
        share = f"{between[name]:15.1%} " if name in between else ""
        lines.append(f"{name:<26}{rate / 1e6:16.3f}{figures['ours_times'][name]:12.1f} x{share}")
    return "\n".join([head, *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.batches",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=ROWS, help=f"(default: {ROWS})")
    parser.add_argument("--columns", type=int, default=COLUMNS, help=f"(default: {COLUMNS})")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help=f"(default: {BATCH_SIZE})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"(default: {TURNS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time limit of a turn (default: {SECONDS})")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(default: cuda if PyTorch finds it, else cpu)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    options = parser.parse_args(arguments)
    device = options.device or _device()
    figures = compare(options.rows, options.columns, options.batch_size, options.turns, options.seconds, device)
    if options.json:
        write_json(options.json, figures)
    print(text_of(figures))
    return 0


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    sys.exit(main())
