"""What our measured processes run: ``python -m gpupipe.bench.worker TASK CONFIG --json OUT``.

The clock starts at the top of this file, before anything heavy is imported, as it does in a peer script.
"""

from __future__ import annotations

import time

_START = time.perf_counter()

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from gpupipe.errors import GpupipeError  # noqa: E402

# The main job imports these when a stage first needs them. They are imported before the stages here, so that a stage's
# seconds are its own; the estimator's library follows once the task is known.
READING = (
    "pandas",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "gpupipe_kernels.interpreters.numpy.interpreter",
)
TRAINING = ("skops.io", "sklearn.metrics", "threadpoolctl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one task and write its JSON; an error of ours is written too, for the process that started us."""
    options = _parse(arguments)
    try:
        document = TASKS[options.task](options)
    except GpupipeError as error:
        what = "\n".join([error.what, *getattr(error, "problems", ())])
        described = {"class": type(error).__name__, "what": what, "where": error.where, "fix": error.fix}
        document = {"error": described}
    Path(options.json).write_text(json.dumps(document), encoding="utf8")
    return 0 if "error" not in document else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpupipe.bench.worker", description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument(
        "config", help="the configuration; or the file of the tasks table and cluster, the folder of keyed"
    )
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--model", default=None)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--warm-up", action="store_true", help="run once more, first, and do not report it")
    parser.add_argument("--contestant", help="of the tasks keyed and cluster: whose functions")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--memory")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", required=True)
    return parser.parse_args(arguments)


def _stages(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.choice import NO_MODEL, choose_model
    from gpupipe.bench.clock import StageClock
    from gpupipe.bench.stages import run_stages
    from gpupipe.config import load_config
    from gpupipe.pipeline.libraries import libraries

    features_only = options.model == NO_MODEL
    for name in READING if features_only else READING + TRAINING:
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
                seconds.pop("imports", None)  # there was nothing left to import
        samples.append(sample)
        document = {"samples": samples[options.warm_up :], "libraries": libraries()}
        Path(options.json).write_text(json.dumps(document), encoding="utf8")  # kept if the next repetition is cut off
    return document


def _extras(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.choice import choose_model
    from gpupipe.bench.extras import run_extras
    from gpupipe.config import load_config

    for name in READING:
        import_module(name)
    config = load_config(options.config, options.overrides)
    return run_extras(config, choose_model(config, options.model))


def _encodings(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.encodings import run_encodings
    from gpupipe.config import load_config

    return run_encodings(load_config(options.config, options.overrides), options.repeat)


def _table(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.datasets.churn import write

    write(options.config, options.rows, options.seed)
    return {"rows": options.rows}


def _keyed(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.keyed.contest import run_contest

    return run_contest(Path(options.config), options.contestant, options.repeat)


def _cluster(options: argparse.Namespace) -> dict[str, Any]:
    from gpupipe.bench.cluster.contest import run_contest

    return run_contest(Path(options.config), options.contestant, options.workers, options.memory)


TASKS = {
    "stages": _stages, "extras": _extras, "encodings": _encodings, "table": _table, "keyed": _keyed,
    "cluster": _cluster,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
