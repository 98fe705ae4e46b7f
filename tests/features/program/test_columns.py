"""Features of some columns of a matrix."""

from __future__ import annotations

import numpy as np
import pytest

import gpupipe as gp
from gpupipe.model_parts.feature_files import check_program


@gp.kernel
def halved(x):
    return x / 2.0


@gp.kernel
def summed(x, y):
    return x + y


OPS = [
    {"cross": {"columns": ["plan", "city"], "as": "deal"}},
    {"expression": {"per_year": "income / (age + 1)", "is_rich": "income > 30000"}},
    {"kernel": {"use": halved, "inputs": ["age"], "as": "half"}},
    {"kernel": {"use": summed, "inputs": ["age", "income"], "as": "sum"}},
    {"bucketize": {"columns": "income", "bins": 4}},
    {"datetime_parts": {"columns": "since", "parts": ["year", "hour"]}},
    {"target_encode": {"columns": ["city", "deal"], "folds": 3}},
]


@pytest.fixture
def made(fit, people):
    y = np.random.default_rng(1).integers(0, 2, len(people))
    return fit(people, OPS, y=y, view="combined")


def test_any_columns_keep_their_values(made, people) -> None:
    served, rng = made.serve(people).to_numpy(), np.random.default_rng(2)
    whole, table = made.features, made.statistics.table
    training = made.training.to_numpy()
    for n in (1, 1, 1, 2, 3, 5, 8, len(whole.features)) * 3:
        columns = rng.permutation(len(whole.features))[:n].tolist()
        some = whole.of_columns(columns)
        check_program(some.program, some.schema)
        assert some.names == [whole.names[column] for column in columns]
        np.testing.assert_array_equal(some.transform_training(table, made.backend), training[:, columns])
        np.testing.assert_array_equal(some.transform(table, made.backend), served[:, columns])


def test_nothing_remains_of_other_columns(made) -> None:
    whole = made.features
    some = whole.of_columns([whole.names.index("half"), whole.names.index("city_target (dense)")])
    assert some.inputs == ("age", "city")
    assert some.lineage == {"half": ["age"], "city_target (dense)": ["city"]}
    assert [call.name for call in some.program.calls] == ["halved"]
    assert set(some.training.columns) == {"age", "city"}
    assert {state["column"] for state in some.states}.isdisjoint({"income", "since", "plan", "active"})
    assert some.views == {"codes": (0,), "dense": (1,), "embedding": (1,)}
    assert len(some.program.luts) == whole.schema["city"].n_codes
    assert some.folds is not None and some.training_program.has_folds

    half = whole.of_columns([whole.names.index("half")])
    assert half.folds is None and half.training_program is None
    assert half.inputs == ("age",) and len(half.program.luts) == 0
