"""Tables of a format, used to score, describe, plan and train."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

from tools.fuzz.edits import EXTREMES, damaged, with_another_field
from tools.fuzz.kinds import MODELS, FuzzCommand, InputKind, Mutate, SoundBase, run_config
from tools.fuzz.second_reader import difference
from tools.fuzz.tables import LEARNED, TARGET, WORDS, written

CODES = frozenset({0, 3, 5})
OR_OTHER_SETTINGS = CODES | {2}  # the target or its label is missing


def table_kind(name: str) -> InputKind:
    """Return the kind for tables of a format."""
    return InputKind([_base(file, content) for file, content in written(name).items()], _mutation(name))


def _mutation(name: str) -> Mutate:
    words = WORDS.get(name, ())

    def mutate(data: bytes, rng: Random) -> bytes:
        if words and rng.random() < 0.4:
            return with_another_field(data, rng, words)
        return damaged(data, rng, (*words, *EXTREMES))

    return mutate


def _base(file: str, content: bytes) -> SoundBase:
    scores = ("predict", "RUNS/linear", "FILE", "-o", "out.csv")
    commands = (
        FuzzCommand(scores, CODES, "out.csv", partial(_check, file), share=6),
        FuzzCommand(("init", "FILE", "--target", TARGET, "-o", "made.yaml"), OR_OTHER_SETTINGS, "made.yaml", share=2),
        FuzzCommand(("plan", "c.yaml"), OR_OTHER_SETTINGS),
        FuzzCommand(("run", "c.yaml", "--output", "out", "--quiet"), OR_OTHER_SETTINGS, "out"),
    )
    config = run_config(f"path: {file}, {LEARNED}", MODELS["linear"]).encode()
    return SoundBase(file, {file: content, "c.yaml": config}, file, commands)


def _check(file: str, folder: Path) -> str:
    return difference(folder / file)
