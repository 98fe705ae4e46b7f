"""Child process of ``gpupipe bench``: ``python -m gpupipe.bench.child TASK CONFIG --json OUT``.

As in a peer script, the clock starts at the top of the file, before any heavy import.
"""

from __future__ import annotations

import time

_START = time.perf_counter()

import argparse  # noqa: E402
import atexit  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from gpupipe.errors import GpupipeError  # noqa: E402

# A run imports these in the stage that first needs them. Here they are imported before the stages, so that no stage
# includes import time; the library of the estimator follows once the task is known.
READING = (
    "pyarrow.csv",
    "pyarrow.parquet",
    "gpupipe_kernels.interpreters.numpy.interpreter",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one task and return its exit code."""
    options = _parse(arguments)
    if arguments is None:
        atexit.register(gc.freeze)  # as commands end: see `gpupipe.cli.main`
    return write_document(lambda: TASKS[options.task](options), Path(options.json))


def write_document(task: Callable[[], dict[str, Any]], output: Path) -> int:
    """Run `task`, write its result to `output` as JSON, and return the exit code.

    A `GpupipeError` is written as well: `gpupipe.bench.process.run_child` raises it again in the parent.
    """
    try:
        document = task()
    except GpupipeError as error:
        what = "\n".join([error.what, *getattr(error, "problems", ())])
        described = {"class": type(error).__name__, "what": what, "where": error.where, "fix": error.fix}
        document = {"error": described}
    output.write_text(json.dumps(document), encoding="utf8")
    return 0 if "error" not in document else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpupipe.bench.child", description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("config", help="the configuration; for the task table, the file to write")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--model", default=None)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--warm-up", action="store_true", help="run once before the measured runs")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", required=True)
    return parser.parse_args(arguments)


def _stages(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.clock import StageClock
    from gpupipe.bench.models import NO_MODEL, choose_model
    from gpupipe.bench.stages import run_stages
    from gpupipe.config import load_config
    from gpupipe.files.libraries import libraries

    features_only = options.model == NO_MODEL
    for name in READING:
        import_module(name)
    imports = time.perf_counter() - _START, time.process_time()
    config = load_config(options.config, options.overrides)
    model = choose_model(config, options.model)
    samples = []
    for i in range(options.repeat + options.warm_up):
        clock = StageClock()
        if i == 0:
            clock.add("imports", *imports)
        sample = run_stages(config, model, clock, features_only)
        if i > 0:
            for seconds in (sample["stages_s"], sample["stages_cpu_s"]):
                seconds.pop("imports", None)  # everything is imported already
        samples.append(sample)
        document = {"samples": samples[options.warm_up :], "libraries": libraries()}
        Path(options.json).write_text(json.dumps(document), encoding="utf8")  # remains if the next run is killed
    return document


def _extras(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.models import choose_model
    from gpupipe.bench.stages import run_extras
    from gpupipe.config import load_config

    for name in READING:
        import_module(name)
    config = load_config(options.config, options.overrides)
    return run_extras(config, choose_model(config, options.model))


def _table(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.datasets.churn import write

    write(options.config, options.rows, options.seed)
    return {"rows": options.rows}


TASKS = {"stages": _stages, "extras": _extras, "table": _table}

if __name__ == "__main__":
    sys.exit(main())
