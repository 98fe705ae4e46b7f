"""The corpus: regression cases, in a folder per kind, each named after the error.

``csv/nul-in-a-header.csv`` is given to every command of its kind. A file of a model or a cache replaces the one
named by its folders: ``model/linear/levels.json/cut.bin``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.campaign import FuzzTrial
from tools.fuzz.kinds import InputKind, SoundBase


def corpus_trials(folder: Path, kind: InputKind) -> dict[str, FuzzTrial]:
    """Return name to trial for the files in the folder of a kind."""
    trials = {}
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        for base in _bases_for(path.relative_to(folder), kind):
            files = base.finish({**base.files, base.damaged: path.read_bytes()})
            for command in base.commands:
                label = f"{path.relative_to(folder.parent)}, {base.name}, {command.args[0]}"
                trials[label] = FuzzTrial(files, base.damaged, command)
    return trials


def _bases_for(path: Path, kind: InputKind) -> Iterator[SoundBase]:
    """Yield the bases whose damaged file the one at `path` can replace."""
    if path.parent.parts:
        yield from (base for base in kind.bases if all(part in base.name for part in path.parent.parts))
    else:
        yield next(base for base in kind.bases if _is_like(base, path))


def _is_like(base: SoundBase, path: Path) -> bool:
    return len(base.commands) > 1 and Path(base.damaged).suffix == path.suffix
