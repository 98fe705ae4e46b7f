"""Columns without information: they neither fail a fit nor change other columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.fitting import fitted
from tests.properties.ops import EVERY, Draw, cases, listed
from tests.properties.tables import DEGENERATE, MAKERS, tables

NOTHING = (
    *DEGENERATE,
    "huge",
    "tiny",
    "no_level",
    "one_level",
    "never_known",
    "always",
    "no_time",
    "one_time",
    "silence",
)
USUAL = tuple(name for name in MAKERS if name not in NOTHING)
OF_THEM = {name: make for name, make in EVERY.items() if name != "auto"}  # it takes all columns


@st.composite
def besides(draw: Draw) -> tuple[Any, Any]:
    """Return a case, and the same with degenerate columns around the others, and ops on them after the others."""
    table, ops, view = draw(cases(tables(makers=USUAL)))
    bad = draw(st.lists(st.sampled_from(NOTHING), min_size=1, max_size=4, unique=True))
    more = listed(draw, replace(table, columns=tuple(bad)), OF_THEM, n_made=100)
    before = draw(st.integers(0, len(bad)))
    with_them = table.with_columns(*bad[:before], *table.columns, *bad[before:])
    return (table, ops, view), (with_them, [*ops, *more], view)


@examples(40)
@given(both=besides())
def test_other_columns_are_the_same_to_the_last_bit(both: Any) -> None:
    without, with_them = (fitted(case) for case in both)
    for name, values in without.served.items():
        assert with_them.served[name].tobytes() == values.tobytes(), name
        assert with_them.training[name].tobytes() == without.training[name].tobytes(), name


@examples(40)
@given(case=cases(tables()))
def test_every_number_is_finite_or_null_and_none_is_null_where_models_take_no_null(case: Any) -> None:
    found = fitted(case)
    for name, values in [*found.training.items(), *found.served.items()]:
        assert not np.isinf(values).any(), name
        assert case[2] == "codes" or not np.isnan(values).any(), name
