"""Cached encoded tables: a damaged one must be rebuilt as if it did not exist."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tools.fuzz.edits import EXTREMES, damaged
from tools.fuzz.kinds import MODELS, FuzzCommand, InputKind, SoundBase, run_config

SOURCE = "generate: churn, rows: 60, seed: 3, cache: cache, target: Churn, positive: 'Yes'"
CONFIG = run_config(SOURCE, MODELS["linear"])


def cache_kind(runs: Path) -> InputKind:
    """Return the kind; in `runs`, ``cached`` is the run of `CONFIG` and ``cache`` its cache."""
    folder = runs / "cache"
    kept = {f"cache/{path.relative_to(folder)}": path.read_bytes() for path in sorted(folder.rglob("*.*"))}
    files = {**kept, "c.yaml": CONFIG.encode(), "metrics.json": (runs / "cached" / "metrics.json").read_bytes()}
    run = FuzzCommand(("run", "c.yaml", "--output", "out", "--quiet"), frozenset({0}), "out", _check)
    bases = [SoundBase(name.rpartition("/")[2], files, name, (run,)) for name in kept]
    return InputKind(bases, partial(damaged, words=EXTREMES))


def _check(folder: Path) -> str:
    same = (folder / "out" / "metrics.json").read_bytes() == (folder / "metrics.json").read_bytes()
    return "" if same else "metrics differ from those with a valid cache"
