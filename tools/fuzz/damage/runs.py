"""Run directories with a damaged file next to the model: they can still be served and repeated.

The run directory is not replaced, because the user may have edited the file.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tools.fuzz.edits import EXTREMES, damaged
from tools.fuzz.kinds import MODELS, FuzzCommand, InputKind, SoundBase, run_config
from tools.fuzz.tables import LEARNED, WORDS, written

SERVED = frozenset({0})
REPLACED = frozenset({0, 2})
REPEATED = frozenset({0, 2, 3, 5})


def run_kind(runs: Path) -> InputKind:
    """Return the kind; in `runs`, ``linear`` is a valid run directory."""
    made = {f"run/{path.relative_to(runs / 'linear')}": path for path in sorted((runs / "linear").rglob("*.*"))}
    files = {
        **{name: path.read_bytes() for name, path in made.items() if path.is_file()},
        "t.parquet": written("parquet")["snappy.parquet"],
        "c.yaml": run_config(f"path: t.parquet, {LEARNED}", MODELS["linear"]).encode(),
    }
    uses = (
        FuzzCommand(("predict", "run", "t.parquet", "-o", "out.csv"), SERVED, "out.csv"),
        FuzzCommand(("export", "run", "-o", "copy"), SERVED, "copy"),
        FuzzCommand(("run", "c.yaml", "--output", "run", "--quiet"), REPLACED),
    )
    again = FuzzCommand(("run", "FILE", "--output", "out", "--quiet"), REPEATED, "out", share=3, may_be_long=True)
    beside = [name for name in files if name.startswith("run/") and not name.startswith("run/model/")]
    bases = [SoundBase(name, files, name, (*uses, again) if name.endswith(".yaml") else uses) for name in beside]
    return InputKind(bases, partial(damaged, words=(*WORDS["jsonl"], *EXTREMES)))
