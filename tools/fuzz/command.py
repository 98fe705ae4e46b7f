"""The command line of the campaigns."""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from gpupipe.cli import main
from gpupipe.config import json_schema
from tools.fuzz.campaign import Campaign, Tally
from tools.fuzz.corpus_cases import corpus_trials
from tools.fuzz.damage.caches import cache_kind
from tools.fuzz.damage.configurations import configuration_kind
from tools.fuzz.damage.models import model_kind
from tools.fuzz.damage.runs import run_kind
from tools.fuzz.damage.tables import table_kind
from tools.fuzz.kinds import InputKind
from tools.fuzz.structure.model_kinds import STRUCTURES, has_libraries, structure_kind
from tools.fuzz.structure.model_roads import ROADS, use_model
from tools.fuzz.structure.zoo import Zoo
from tools.fuzz.tables import WRITERS
from tools.fuzz.valid_runs import make_runs

QUICK_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # runs sync what they write to disk
KINDS = (*WRITERS, "config", "model", *STRUCTURES, "run", "cache")


def fuzz() -> int:
    """Run the requested campaigns; return 1 if a case failed, else 0."""
    asked = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="gpupipe-fuzz-", dir=QUICK_DISK) as made:
        runs = Path(made, "runs")
        runs.mkdir()
        os.environ["GPUPIPE_CACHE"] = str(runs / "cache-of-all")
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            make_runs(runs, main)
        wanted = {
            name: count or asked.cases
            for name, count in asked.kind or map(_kind_and_cases, filter(has_libraries, KINDS))
        }
        zoo = Zoo(runs / "zoo")
        kinds = {name: _kind(name, runs, zoo) for name in wanted}
        gc.collect()
        gc.freeze()  # else garbage collection would copy every page of the parent in each child
        campaign = Campaign(Path(made, "cases"), runs, _command, asked.keep)
        tallies = {}
        for name, kind in kinds.items():
            begin = time.monotonic()
            if name in STRUCTURES:
                campaign.require_sound(kind)
            numbers = range(asked.first, asked.first + wanted[name])
            tallies[name] = campaign.run(name, kind, [f"{asked.seed}:{name}:{number}" for number in numbers])
            if asked.corpus:
                wrong = campaign.wrong(corpus_trials(asked.corpus / name, kind))
                tallies[name].failures.update(f"{case}: {problem}" for case, problem in wrong.items())
            if not asked.json:
                _show(name, tallies[name], time.monotonic() - begin)
    if asked.json:
        print(json.dumps({name: vars(tally) for name, tally in tallies.items()}))
    return int(any(tally.failures for tally in tallies.values()))


def _command(arguments: list[str]) -> int:
    return use_model(arguments) if arguments[0] == ROADS else main(arguments)


_KIND_HELP = f"one of {', '.join(KINDS)}; default: all"


def _kind_and_cases(text: str) -> tuple[str, int | None]:
    name, _, count = text.partition(":")
    if name not in KINDS:
        raise argparse.ArgumentTypeError(f"expected {_KIND_HELP}; got {name!r}")
    return name, int(count) if count else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description="Fuzz the command line with damaged inputs."
    )
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", action="append", type=_kind_and_cases, metavar="KIND[:CASES]", help=_KIND_HELP)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "gpupipe-fuzz"), help="failing cases")
    parser.add_argument("--corpus", type=Path, help="also run the regression cases of this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    return parser


def _kind(name: str, runs: Path, zoo: Zoo) -> InputKind:
    if name in WRITERS:
        return table_kind(name)
    if name == "config":
        return configuration_kind(json_schema())
    if name in STRUCTURES:
        return structure_kind(name, zoo)
    return {"model": model_kind, "run": run_kind, "cache": cache_kind}[name](runs)


def _show(name: str, tally: Tally, seconds: float) -> None:
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(tally.codes.items()))
    took = f"{seconds:.0f} s, {tally.cpu_seconds:.0f} s of CPU"
    print(
        f"{name}: {sum(tally.codes.values())} cases in {took}; exit codes {codes}; "
        f"{tally.unchanged} unchanged, {tally.unfinished} exceeded their time",
        flush=True,
    )
    for problem, count in tally.failures.most_common():
        print(f"  {count} x {problem}", flush=True)
    for path in tally.kept:
        print(f"    saved: {path}", flush=True)
