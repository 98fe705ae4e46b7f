"""Order and names of the runners."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupipe.bench.runners import peer_runners, run_in_turns
from gpupipe.bench.sample import BenchSample
from gpupipe.errors import ConfigError


@dataclass
class Recorder:
    name: str
    log: list[str]

    def run(self, turn: int, folder: Path) -> list[BenchSample]:
        self.log.append(f"{self.name}{turn}")
        return [BenchSample({"turn": turn})]


def test_all_run_in_turn(tmp_path: Path) -> None:
    log: list[str] = []
    said: list[str] = []
    samples = run_in_turns([Recorder("a", log), Recorder("b", log)], 3, tmp_path, said.append)
    assert log == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert [run.document["turn"] for run in samples["b"]] == [0, 1, 2]
    assert said[:2] == ["turn 1 of 3: a", "turn 1 of 3: b"]


def test_a_peer_runs_in_a_separate_process(peer: Path, tmp_path: Path) -> None:
    data = tmp_path / "t.parquet"
    (found,) = peer_runners([peer], data, "hgb")
    (run,) = found.run(0, tmp_path)
    assert found.name == "peer_fake"
    assert run.metric("roc_auc") == 0.75
    assert run.process_s is not None and run.process_s > 0
    assert run.process_cpu_s is not None and run.process_cpu_s > 0
    assert peer.with_suffix(".log").read_text() == f"hgb {data}"


def test_two_scripts_of_the_same_name_are_numbered(peer: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / peer.name
    other.parent.mkdir()
    other.write_text(peer.read_text())
    assert [p.name for p in peer_runners([peer, other], tmp_path / "t.csv", "lr")] == ["peer_fake", "peer_fake 2"]


def test_a_peer_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no script"):
        peer_runners([tmp_path / "absent.py"], tmp_path / "t.csv", "lr")


def test_peers_need_one_file(peer: Path) -> None:
    with pytest.raises(ConfigError, match="pass --data FILE"):
        peer_runners([peer], None, "lr")
