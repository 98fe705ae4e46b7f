"""One-hot against codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.bench.encodings import run_encodings
from gpupipe.config import load_config


@pytest.mark.parametrize(("kind", "metric"), [("binary", "roc_auc"), ("regression", "r2")])
def test_both_views_are_trained_in_turn(kind: str, metric: str, request: pytest.FixtureRequest) -> None:
    report = run_encodings(load_config(request.getfixturevalue(kind)), repeat=2)
    one_hot, codes = report["views"]["one-hot"], report["views"]["codes"]
    assert (one_hot["columns"], one_hot["native_categories"]) == (6, 0)  # 2 numbers, 4 levels
    assert (codes["columns"], codes["native_categories"]) == (3, 1)
    assert report["metric"] == metric
    for view in (one_hot, codes):
        assert len(view["runs"]) == 2
        assert view["runs"][0][metric] == view["runs"][1][metric] > 0


def test_the_parameters_are_those_of_the_configuration(binary: Path) -> None:
    assert run_encodings(load_config(binary), repeat=1)["model"] == "hist_gradient_boosting (max_iter=5)"
