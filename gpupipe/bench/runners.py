"""The runners that are measured: gpupipe in fresh processes, gpupipe warm in one process, and peer scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupipe.bench.process import run_child, run_peer
from gpupipe.bench.sample import BenchSample, require_complete
from gpupipe.errors import ConfigError

FRESH = "gpupipe"
STEADY = "gpupipe, steady"

Progress = Callable[[str], None]


@dataclass
class FreshRunner:
    """gpupipe, a fresh process in each turn.

    Attributes
    ----------
    arguments : sequence of str
        Arguments of `gpupipe.bench.child`: configuration, overrides, model.
    libraries : dict of str to str
        Versions of the libraries of the child process, after it has run.
    """

    arguments: Sequence[str]
    name: str = FRESH
    libraries: dict[str, str] = field(default_factory=dict)

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Return the runs of one turn (counted from 0); the process writes its JSON into `folder`."""
        done = run_child(["stages", *self.arguments], folder / f"fresh_{turn}.json")
        self.libraries |= done.document["libraries"]
        return [BenchSample(done.document["samples"][0], done.seconds, done.cpu_seconds)]


@dataclass
class SteadyRunner:
    """gpupipe, the stages repeated in one process after a warm-up; all in the first turn."""

    arguments: Sequence[str]
    repeat: int
    name: str = STEADY

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Run one process for all samples; nothing in the turns after the first."""
        if turn > 0:
            return []
        command = ["stages", *self.arguments, "--warm-up", "--repeat", str(self.repeat)]
        done = run_child(command, folder / "steady.json")
        return [BenchSample(document) for document in done.document["samples"]]


@dataclass
class PeerRunner:
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

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Run one process for one sample."""
        done = run_peer(self.script, self.arguments, folder / f"{self.name}_{turn}.json")
        require_complete(done.document, str(self.script))
        return [BenchSample(done.document, done.seconds, done.cpu_seconds)]


Runner = FreshRunner | SteadyRunner | PeerRunner


def peer_runners(scripts: Sequence[Path], data: Path | None, word: str, more: Sequence[str] = ()) -> list[PeerRunner]:
    """Return the peers, each named after its script, with a number if two scripts share a name.

    Raises
    ------
    ConfigError
        If a script does not exist, or there is not exactly one file to give it.
    """
    found: list[PeerRunner] = []
    for script in scripts:
        if not script.is_file():
            raise ConfigError(f"there is no script {script}", where="--peer", fix="name a Python file")
        if data is None:
            raise ConfigError(
                "peers read one file, and the configuration's source is not one", where="source", fix="give --data FILE"
            )
        same = sum(peer.script.stem == script.stem for peer in found)
        name = f"{script.stem} {same + 1}" if same or script.stem in (FRESH, STEADY) else script.stem
        found.append(PeerRunner(script, ["--data", str(data), "--model", word, *more], name))
    return found


def run_in_turns(runners: Sequence[Any], repeat: int, folder: Path, progress: Progress) -> dict[str, list[BenchSample]]:
    """Measure all runners `repeat` times, one after the other in each turn, so that a busy minute affects all alike.

    Parameters
    ----------
    runners : sequence of FreshRunner, SteadyRunner or PeerRunner
    repeat : int
    folder : Path
        For the JSON of the processes.
    progress : callable
        Called with a line of text before each process starts.
    """
    samples: dict[str, list[BenchSample]] = {runner.name: [] for runner in runners}
    for turn in range(repeat):
        for runner in runners:
            progress(f"turn {turn + 1} of {repeat}: {runner.name}")
            samples[runner.name] += runner.run(turn, folder)
    return samples
