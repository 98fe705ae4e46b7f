from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from gpupipe.splits import Split


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "a", "column": {"name": "part", "test": ["x"]}}, "group and column cannot be combined"),
        ({"gap": "7d"}, "gap needs time"),
        ({"window": "90d"}, "window needs time"),
        ({"time": "b", "gap": "0 rows"}, "expected a duration such as 7d, a number of rows such as 500 rows"),
        ({"time": "b", "gap": "soon"}, "got 'soon'"),
        ({"time": "b", "window": "growing"}, "expected expanding, rolling, a duration"),
        ({"time": "b", "window": "rolling"}, "rolling needs cv"),
        ({"time": "b", "purge": "test"}, "purge needs group and time"),
        ({"repeats": 3}, "repeats needs random folds: set cv"),
        ({"time": "b", "cv": 5, "repeats": 3}, "repeats needs random folds"),
        ({"time": "b", "column": {"name": "part", "test": ["x"]}}, "time and column cannot be combined"),
        ({"group": "a", "stratify": True}, "stratify cannot be combined with group"),
        ({"cutoff": "2012-10-01"}, "cutoff needs time"),
        ({"time": "b", "cutoff": "2012-10-01", "cv": 5}, "cutoff defines one split"),
        ({"column": {"name": "part", "test": ["x"]}, "cv": 5}, "column defines one split"),
        ({"stratify": True, "shuffle": False}, "stratify needs shuffle"),
        ({"time": "b", "cutoff": "next week"}, "expected a number or a date such as 2012-10-01"),
    ],
)
def test_conflicting_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Split(**settings)


@pytest.mark.parametrize("wrong", [{"test_size": 0}, {"test_size": 1}, {"cv": 1}, {"seed": -1}, {"folds": 5}])
def test_values_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Split(**wrong)


@pytest.mark.parametrize(
    ("cutoff", "kept"), [(date(2012, 10, 1), "2012-10-01"), (20121001, "20121001"), ("3.5", "3.5")]
)
def test_a_cutoff_may_be_written_as_yaml_reads_it(cutoff: Any, kept: str) -> None:
    assert Split(time="t", cutoff=cutoff).cutoff == kept
