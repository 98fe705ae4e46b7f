"""Medians, ratios and break-even, computed by hand here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpupipe.bench.figures import PROCESS, STAGES, break_even, extras_summary, known_median, ratio, summary
from gpupipe.bench.sample import BenchSample

Make = Callable[..., BenchSample]


def test_each_figure_is_the_median_of_the_runs(sample: Make) -> None:
    runs = [sample(2.0, process=20.0, auc=0.7), sample(9.0, process=90.0, auc=0.9), sample(1.0, process=10.0, auc=0.8)]
    figures = summary({"gpupipe": runs}, ["gpupipe"], "roc_auc")["gpupipe"]
    assert figures["seconds"] == {
        "imports": 50.0,
        "read": 2.0,
        "split": 2.0,
        "features fit": 2.0,
        "features transform": 4.0,  # of the training and of the test rows
        "features total": 6.0,
        "train": 2.0,
        "evaluate": None,
        "save": None,
        "total": 12.0,  # six stages, without the imports
        "total without train": 10.0,
        PROCESS: 20.0,
    }
    assert figures["cpu_seconds"]["total"] == 24.0
    assert (figures["peak_rss_mib"], figures["quality"]) == (200.0, 0.8)
    assert [run["process_s"] for run in figures["runs"]] == [20.0, 90.0, 10.0]


def test_a_ratio_is_the_peer_median_over_ours(sample: Make) -> None:
    ours = [sample(1.0, process=10.0), sample(2.0, process=20.0), sample(4.0, process=40.0)]
    theirs = [sample(5.0, process=30.0), sample(7.0, process=90.0), sample(6.0, process=60.0)]
    figures = summary({"gpupipe": ours, "peer": theirs}, ["gpupipe"], "roc_auc")
    assert figures["peer"]["ratio"]["read"] == 6.0 / 2.0
    assert figures["peer"]["ratio"][PROCESS] == 60.0 / 20.0
    assert figures["peer"]["ratio"]["peak_rss_mib"] == 3.0
    assert figures["peer"]["ratio"]["save"] is None
    assert set(figures["gpupipe"]["ratio"].values()) == {1.0, None}


def test_whole_processes_are_compared_with_cold_runs_and_stages_with_warm_ones(
    sample: Make,
) -> None:
    runs = {"steady": [sample(1.0)], "gpupipe": [sample(2.0, process=5.0)], "peer": [sample(4.0, process=15.0)]}
    figures = summary(runs, ["steady", "gpupipe"], "roc_auc")
    assert (figures["peer"]["ratio"]["read"], figures["peer"]["ratio"][PROCESS]) == (4.0, 3.0)
    assert figures["steady"]["ratio"][PROCESS] is None


def test_a_peer_that_fits_and_transforms_at_once_has_the_sum_only() -> None:
    stages = {"read": 1.0, "features_fit_transform_train": 5.0, "features_transform_test": 2.0}
    document = {"stages_s": stages, "stages_cpu_s": stages, "features_total_s": 7.0, "total_s": 8.0, "peak_rss_mib": 1}
    figures = summary({"peer": [BenchSample(document)]}, ["peer"], "roc_auc")["peer"]["seconds"]
    assert (figures["features fit"], figures["features transform"], figures["features total"]) == (None, None, 7.0)


def test_every_row_of_the_table_is_in_the_document(sample: Make) -> None:
    figures = summary({"gpupipe": [sample(1.0)]}, ["gpupipe"], "roc_auc")["gpupipe"]
    for name in ("seconds", "cpu_seconds"):
        assert list(figures[name]) == [*STAGES, PROCESS]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0], 2.5), ([None, 5.0], 5.0), ([None], None), ([], None)],
)
def test_the_median_ignores_missing_values(values: list[float | None], expected: float | None) -> None:
    assert known_median(values) == expected


def test_there_is_no_ratio_to_nothing() -> None:
    assert [ratio(None, 1.0), ratio(1.0, None), ratio(1.0, 0.0), ratio(3.0, 2.0)] == [None, None, None, 1.5]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([5.0, 6.0, 7.0], [1.0, 8.0, 70.0], 100),
        ([1.0, 9.0, 7.0], [2.0, 8.0, 70.0], 1000),  # faster at 10 rows, but not for all larger tables
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], 10),
        ([1.0, 2.0, 3.0], [2.0, 3.0, 3.0], None),  # as fast is not faster
        ([1.0, 2.0, None], [2.0, 3.0, 4.0], None),
    ],
)
def test_break_even_is_the_size_above_which_gpupipe_is_faster(
    ours: list[float], theirs: list[float], expected: int | None
) -> None:
    assert break_even([10, 100, 1000], ours, theirs) == expected
    assert break_even([1000, 100, 10], ours[::-1], theirs[::-1]) == expected


def test_a_cached_read_includes_the_pass_that_touches_its_pages() -> None:
    stages = {"read": 9.0, "read_pass": 1.0, "cache_store": 12.0, "cache_load": 0.5, "cache_pass": 2.0}
    figures = extras_summary([{"stages_s": stages, "stages_cpu_s": stages}])["seconds"]
    assert list(figures.values()) == [9.0, 10.0, 12.0, 0.5, 2.5, None]
