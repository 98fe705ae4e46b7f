"""Kinds of damaged input: valid files, a way to damage one of them, and commands that read it."""

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
"""Valid runs that commands may use: name to model entry."""


@dataclass(frozen=True)
class FuzzCommand:
    """A command line applied to a damaged file.

    Attributes
    ----------
    args : tuple of str
        ``FILE`` stands for the damaged file, ``RUNS`` for the folder of valid runs.
    codes : frozenset of int
        Allowed exit codes.
    product : str
        File that it writes if, and only if, it succeeds.
    check : callable, optional
        Called with the case's folder after exit code 0; returns a problem of the result, or ``""``.
    share : int
        Sampling weight.
    may_be_long : bool
        Whether the input may request more work than the time limit allows.
    prepare : callable, optional
        Called in the child process before the command.
    """

    args: tuple[str, ...]
    codes: frozenset[int]
    product: str = ""
    check: Callable[[Path], str] | None = None
    share: int = 1
    may_be_long: bool = False
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class SoundBase:
    """A valid input.

    Attributes
    ----------
    name : str
    files : mapping of str to bytes
        Files in the case's folder.
    damaged : str
        Name of the file that is damaged.
    commands : sequence of FuzzCommand
    finish : callable
        Called with the files after one is damaged; returns consistent files.
    """

    name: str
    files: Files
    damaged: str
    commands: Sequence[FuzzCommand]
    finish: Callable[[Files], Files] = lambda files: files


@dataclass(frozen=True)
class InputKind:
    """Valid inputs of a kind, and a function that damages a file, also one that is already damaged."""

    bases: Sequence[SoundBase]
    mutate: Mutate


def run_config(source: str, model: str) -> str:
    """Return a configuration with a short run time.

    Parameters
    ----------
    source : str
        The ``source:`` section, without its braces.
    model : str
        One of the values of `MODELS`.
    """
    return f"source: {{{source}}}\nmodels: [{model}]\nreport: {{enabled: false}}\n"
