"""Measured runners: gpupipe in fresh processes, gpupipe warm in one process, and peer scripts."""

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
    """gpupipe in a fresh process in each turn.

    - `arguments`: arguments of `gpupipe.bench.child`: configuration, overrides, model.
    - `libraries`: library versions of the child process, set when it has run.
    """

    arguments: Sequence[str]
    name: str = FRESH
    libraries: dict[str, str] = field(default_factory=dict)

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Run one process and return its sample; it writes its JSON to `folder`. Turns count from 0."""
        done = run_child(["stages", *self.arguments], folder / f"fresh_{turn}.json")
        self.libraries |= done.document["libraries"]
        return [BenchSample(done.document["samples"][0], done.seconds, done.cpu_seconds)]


@dataclass
class SteadyRunner:
    """gpupipe warm: the stages repeated in one process after a warm-up, all in the first turn."""

    arguments: Sequence[str]
    repeat: int
    name: str = STEADY

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Run one process and return all samples in the first turn; return none in later turns."""
        if turn > 0:
            return []
        command = ["stages", *self.arguments, "--warm-up", "--repeat", str(self.repeat)]
        done = run_child(command, folder / "steady.json")
        return [BenchSample(document) for document in done.document["samples"]]


@dataclass
class PeerRunner:
    """A script that does the same work, in a fresh process in each turn.

    `arguments` are ``--data FILE --model WORD``.
    """

    script: Path
    arguments: Sequence[str]
    name: str

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        """Run one process and return its sample."""
        done = run_peer(self.script, self.arguments, folder / f"{self.name}_{turn}.json")
        require_complete(done.document, str(self.script))
        return [BenchSample(done.document, done.seconds, done.cpu_seconds)]


Runner = FreshRunner | SteadyRunner | PeerRunner


def peer_runners(scripts: Sequence[Path], data: Path | None, word: str, more: Sequence[str] = ()) -> list[PeerRunner]:
    """Return the peers, each named after its script, with a number if two scripts share a name.

    Raise ConfigError if a script does not exist, or there is not exactly one file to give it.
    """
    found: list[PeerRunner] = []
    for script in scripts:
        if not script.is_file():
            raise ConfigError(f"there is no script {script}", where="--peer", fix="pass a Python file")
        if data is None:
            raise ConfigError(
                "peers read a single file; the configuration's source is not one",
                where="source",
                fix="pass --data FILE",
            )
        same = sum(peer.script.stem == script.stem for peer in found)
        name = f"{script.stem} {same + 1}" if same or script.stem in (FRESH, STEADY) else script.stem
        found.append(PeerRunner(script, ["--data", str(data), "--model", word, *more], name))
    return found


def run_in_turns(runners: Sequence[Any], repeat: int, folder: Path, progress: Progress) -> dict[str, list[BenchSample]]:
    """Measure all runners `repeat` times, one after another in each turn, so that other load affects all of them.

    `folder` is for the JSON files of the processes. `progress` is called with a line of text before each process
    starts.
    """
    samples: dict[str, list[BenchSample]] = {runner.name: [] for runner in runners}
    for turn in range(repeat):
        for runner in runners:
            progress(f"turn {turn + 1} of {repeat}: {runner.name}")
            samples[runner.name] += runner.run(turn, folder)
    return samples
