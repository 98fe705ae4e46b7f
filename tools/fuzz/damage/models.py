"""Damaged model directories, with their old hashes and with the hashes of the damaged files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gpupipe.artifact import manifest
from tools.fuzz.edits import EXTREMES, damaged
from tools.fuzz.kinds import MODELS, Files, FuzzCommand, InputKind, SoundBase
from tools.fuzz.tables import WORDS, written

READ_OR_REFUSED = frozenset({0, 3, 5})
REFUSED = frozenset({5})
OWN = f"model/{manifest.NAME}"


def model_kind(runs: Path) -> InputKind:
    """Return the kind; `runs` holds a valid run directory for each of `MODELS`."""
    return InputKind(list(_bases(runs)), partial(damaged, words=(*WORDS["jsonl"], *EXTREMES)))


def _bases(runs: Path) -> Iterator[SoundBase]:
    table = written("parquet")["snappy.parquet"]
    for label in MODELS:
        folder = runs / label / "model"
        parts = {
            f"model/{path.name}": path.read_bytes() for path in sorted(folder.iterdir()) if path.name != manifest.CARD
        }
        for name in parts:
            files = {**parts, "t.parquet": table}
            yield SoundBase(f"{label} {name}", files, name, _uses(REFUSED))
            yield SoundBase(f"{label} {name}, rehashed", files, name, _uses(READ_OR_REFUSED), vouched_for)


def _uses(codes: frozenset[int]) -> tuple[FuzzCommand, ...]:
    predict = ("predict", "model", "t.parquet", "-o", "out.csv")
    return FuzzCommand(predict, codes, "out.csv", share=3), FuzzCommand(("verify", "model"), codes)


def vouched_for(files: Files) -> Files:
    """Return the files with a manifest of their hashes, as an attacker would write it."""
    try:
        values = json.loads(files[OWN])
        for name, entry in values["files"].items():
            content = files[f"model/{name}"]
            entry |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        return {**files, OWN: manifest.render(values)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # the manifest itself is damaged
        return files
