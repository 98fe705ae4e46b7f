"""Kinds of damaged input: sound files, a way to damage one of them, and commands that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

Files = Mapping[str, bytes]
Mutate = Callable[[bytes, Random], bytes]

MODELS = {
    "linear": "logistic_regression",
    "trees": "xgboost: {n_estimators: 3, max_depth: 2}",
    "forest": "hist_gradient_boosting: {max_iter: 2, max_leaf_nodes: 4, min_samples_leaf: 5}",
    "neighbours": "knn: {n_neighbors: 3}",
}
"""The sound runs that commands may use: name to entry of the leaderboard."""


@dataclass(frozen=True)
class FuzzCommand:
    """A command line that is given a damaged file.

    Attributes
    ----------
    args : tuple of str
        ``FILE`` stands for the damaged file, ``RUNS`` for the folder of the sound runs.
    codes : frozenset of int
        The allowed exit codes.
    product : str
        The file that it leaves if, and only if, it succeeds.
    judge : callable, optional
        Called with the case's folder after exit code 0; returns a problem of the result, or an empty text.
    share : int
        Weight with which it is drawn.
    may_be_long : bool
        Whether the input may ask for more work than its time allows.
    prepare : callable, optional
        Called in the child before the command.
    """

    args: tuple[str, ...]
    codes: frozenset[int]
    product: str = ""
    judge: Callable[[Path], str] | None = None
    share: int = 1
    may_be_long: bool = False
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class SoundBase:
    """A sound input.

    Attributes
    ----------
    name : str
    files : mapping of str to bytes
        The files in the case's folder.
    damaged : str
        The one among them that is damaged.
    commands : sequence of FuzzCommand
    finish : callable
        Called with the files after one is damaged; returns them consistent again.
    """

    name: str
    files: Files
    damaged: str
    commands: Sequence[FuzzCommand]
    finish: Callable[[Files], Files] = lambda files: files


@dataclass(frozen=True)
class InputKind:
    """Sound inputs of a kind, and a function that damages a file, again if it is damaged already."""

    bases: Sequence[SoundBase]
    mutate: Mutate


def run_config(source: str, model: str) -> str:
    """Return a configuration that runs quickly.

    Parameters
    ----------
    source : str
        The ``source:`` section, without its braces.
    model : str
        One of the entries of `MODELS`.
    """
    return f"source: {{{source}}}\nmodels: [{model}]\nreport: {{enabled: false}}\n"
