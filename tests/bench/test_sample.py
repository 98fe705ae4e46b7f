"""Required content of a peer's JSON."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.bench.sample import BenchSample, require_complete, stage_document
from gpupipe.errors import ConfigError

GOOD = {"stages_s": {"read": 1.0}, "stages_cpu_s": {"read": 1}, "features_total_s": 0, "total_s": 1, "peak_rss_mib": 9}


def test_a_complete_report_is_accepted() -> None:
    require_complete(GOOD, "peer.py")


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("value", [None, "fast", {}, True])
def test_missing_and_nonnumeric_fields_are_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        require_complete({**GOOD, name: value}, "peer.py")
    assert "peer.py" in str(caught.value)
    assert "--data FILE" in caught.value.fix


def test_a_list_is_not_a_sample() -> None:
    with pytest.raises(ConfigError, match="not an object"):
        require_complete([GOOD], "peer.py")


def test_the_totals_exclude_imports_and_serving() -> None:
    wall = {
        "imports": 8.0,
        "read": 1.0,
        "features_fit": 2.0,
        "features_transform_test": 3.0,
        "serve_transform_all": 9.0,
    }
    document = stage_document(wall, wall)
    assert (document["features_total_s"], document["total_s"]) == (5.0, 6.0)


def test_peers_call_roc_auc_auc_and_other_metrics_as_we_do() -> None:
    sample = BenchSample({"auc": 0.8, "r2": 0.5})
    assert (sample.metric("roc_auc"), sample.metric("r2"), sample.metric("rmse")) == (0.8, 0.5, None)
