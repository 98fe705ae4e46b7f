"""Who is measured: gpupipe in fresh processes, gpupipe warm in one process, and peer scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpupipe.bench.process import run_peer, run_worker
from gpupipe.bench.sample import Sample, refuse_incomplete
from gpupipe.errors import ConfigError

FRESH = "gpupipe"
STEADY = "gpupipe, steady"

Progress = Callable[[str], None]


class Contestant(Protocol):
    """Somebody who can be measured."""

    @property
    def name(self) -> str:
        """What it is called in the table."""

    def run(self, turn: int, folder: Path) -> list[Sample]:
        """Return the runs of one turn (counted from 0); the process writes its JSON into `folder`."""


@dataclass
class Ours:
    """gpupipe, a fresh process in each turn.

    Attributes
    ----------
    arguments : sequence of str
        Of the worker: configuration, overrides, model.
    libraries : dict of str to str
        Versions that the process computed with, once it has run.
    """

    arguments: Sequence[str]
    name: str = FRESH
    libraries: dict[str, str] = field(default_factory=dict)

    def run(self, turn: int, folder: Path) -> list[Sample]:
        """Run one process for one sample."""
        done = run_worker(["stages", *self.arguments], folder / f"ours_{turn}.json")
        self.libraries |= done.document["libraries"]
        return [Sample(done.document["samples"][0], done.seconds, done.cpu_seconds)]


@dataclass
class OursSteady:
    """gpupipe, the stages repeated in one process after a warm-up; all in the first turn."""

    arguments: Sequence[str]
    repeat: int
    name: str = STEADY

    def run(self, turn: int, folder: Path) -> list[Sample]:
        """Run one process for all samples; nothing in the turns after the first."""
        if turn > 0:
            return []
        command = ["stages", *self.arguments, "--warm-up", "--repeat", str(self.repeat)]
        done = run_worker(command, folder / "steady.json")
        return [Sample(document) for document in done.document["samples"]]


@dataclass
class Peer:
    """A script that does the same work, a fresh process in each turn.

    Attributes
    ----------
    script : Path
    arguments : sequence of str
        ``--data FILE --model WORD``.
    """

    script: Path
    arguments: Sequence[str]
    name: str

    def run(self, turn: int, folder: Path) -> list[Sample]:
        """Run one process for one sample."""
        done = run_peer(self.script, self.arguments, folder / f"{self.name}_{turn}.json")
        refuse_incomplete(done.document, str(self.script))
        return [Sample(done.document, done.seconds, done.cpu_seconds)]


def peers(scripts: Sequence[Path], data: Path | None, word: str, more: Sequence[str] = ()) -> list[Peer]:
    """Return the peers, each under a name of its own: the script's, and a number where two share one.

    Raises
    ------
    ConfigError
        If a script is not there, or there is no single file to give it.
    """
    found: list[Peer] = []
    for script in scripts:
        if not script.is_file():
            raise ConfigError(f"there is no script {script}", where="--peer", fix="name a Python file")
        if data is None:
            raise ConfigError(
                "peers read one file, and the configuration's source is not one", where="source", fix="give --data FILE"
            )
        same = sum(peer.script.stem == script.stem for peer in found)
        name = f"{script.stem} {same + 1}" if same or script.stem in (FRESH, STEADY) else script.stem
        found.append(Peer(script, ["--data", str(data), "--model", word, *more], name))
    return found


def in_turn(contestants: Sequence[Any], repeat: int, folder: Path, progress: Progress) -> dict[str, list[Sample]]:
    """Measure all, `repeat` times, one after the other in each turn: a busy minute then hurts all alike.

    Parameters
    ----------
    contestants : sequence of Contestant
    repeat : int
    folder : Path
        For the JSON of the processes.
    progress : callable
        Told of each process before it starts.
    """
    samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
    for turn in range(repeat):
        for contestant in contestants:
            progress(f"turn {turn + 1} of {repeat}: {contestant.name}")
            samples[contestant.name] += contestant.run(turn, folder)
    return samples
