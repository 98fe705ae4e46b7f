"""Ratios of speed: the rule that fails CI, the file of references, and equal work on both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ratios import child
from benchmarks.ratios.__main__ import REFERENCE, THREADS, main, prepare, read_reference, record_of, text_of
from benchmarks.ratios.verdict import is_decided, lost, medians

LIMIT = 0.625  # 1.25 times the reference


@pytest.mark.parametrize(
    ("ratios", "is_lost"),
    [
        ((0.5, 0.5, 0.5), False),
        ((LIMIT, LIMIT, LIMIT), False),
        ((LIMIT + 1e-9, LIMIT, LIMIT), False),
        ((9.0, 0.5, 0.5), False),
        ((LIMIT + 1e-9, 0.1, LIMIT + 1e-9), True),
        ((0.7, 0.7, 0.7), True),
        ((0.7, 0.7), True),
        ((0.7, 0.5), False),
    ],
)
def test_a_ratio_is_lost_above_a_quarter_in_two_turns(ratios: tuple[float, ...], is_lost: bool) -> None:
    turns = [{"read": ratio, "row": 1.0} for ratio in ratios]
    assert list(lost(turns, {"read": 0.5, "row": 1.0})) == ["read"] * is_lost


@pytest.mark.parametrize(
    ("ratios", "decided"),
    [((0.5,), False), ((0.5, 0.5), True), ((0.7, 0.5), False), ((0.7, 0.7), True), ((0.7, 0.5, 0.5), True)],
)
def test_a_third_turn_runs_only_if_it_can_decide(ratios: tuple[float, ...], decided: bool) -> None:
    assert is_decided([{"read": ratio} for ratio in ratios], {"read": 0.5}, 3) == decided


def test_a_measure_without_a_reference_is_not_forgotten() -> None:
    assert lost([{"new": 0.1}] * 3, {}) == {"new": "no reference"}


def test_the_file_of_references_has_every_measure() -> None:
    measures = {"import", "read", "features", "run", "row", "row of pandas", "frame"}
    found = read_reference(REFERENCE)
    assert set(found) == measures
    assert all(ratio > 0 for ratio in found.values())


def test_a_record_renews_the_references(tmp_path: Path) -> None:
    turns = [{"read": 0.5}, {"read": 0.9}, {"read": 0.6}]
    assert medians(turns) == {"read": 0.6}
    record, reference = tmp_path / "ratios.json", tmp_path / "reference.json"
    assert read_reference(reference) == {}
    record.write_text(json.dumps(record_of(turns, 12.3)), encoding="utf8")
    assert main(["--renew-from", str(record), "--reference", str(reference)]) == 0
    assert read_reference(reference) == {"read": 0.6}
    assert "| read | 0.6000 | 0.5000 0.9000 0.6000 | 0.6000 |" in text_of(turns, read_reference(reference))


@pytest.mark.filterwarnings("ignore:Series.dt.weekday is deprecated")
def test_both_sides_compute_as_many_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpupipe.bench import stages

    seen: dict[str, Any] = {}
    run_stages = stages.run_stages

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen["document"] = run_stages(*args, **kwargs)
        return seen["document"]

    monkeypatch.setattr(stages, "run_stages", spy)
    prepare(tmp_path, 2_000, 100)
    found = {"product": child.stages_of_product(tmp_path), "peer": child.stages_of_peer(tmp_path)}
    assert all(set(each) == {"read", "features"} and min(each.values()) > 0 for each in found.values())
    assert seen["document"]["features"] == n_peer_features(tmp_path)


def n_peer_features(folder: Path) -> int:
    from benchmarks.peers.churn_pandas import linear_features, read
    from gpupipe.bench.clock import StageClock

    files = sorted(map(str, folder.glob("stages/*.parquet")))
    return int(linear_features(*read(files, StageClock()), StageClock()).shape[1])


def test_one_thread_is_used() -> None:
    assert "GPUPIPE_THREADS" in THREADS
