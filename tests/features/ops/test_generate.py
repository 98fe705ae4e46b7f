"""generate: what it finds, what it drops, and that its columns are those of the ordinary ops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.features.generation import selection, short_model, shortlist
from gpupipe.features.generation.candidates import FeatureCandidate
from gpupipe.features.generation.screen import Screen
from tests.examples import examples

Array = Any
N = 2400


def planted(seed: int = 0, n: int = N) -> tuple[pd.DataFrame, Array]:
    """Return a frame whose target depends on a ratio, a combination of levels, and a number relative to its group."""
    rng = np.random.default_rng(seed)
    city, plan = rng.choice(list("abcdefgh"), n), rng.choice(list("uvwxyz"), n)
    level = dict(zip("abcdefgh", 8 * rng.normal(size=8), strict=True))
    frame = pd.DataFrame({"a": rng.lognormal(0, 1, n), "b": rng.lognormal(0, 1, n), "city": city, "plan": plan})
    own = rng.normal(size=n) * [1 + "abcdefgh".index(c) / 2 for c in city]
    frame["load"] = own + [level[c] for c in city]
    effect = dict(zip(product("abcdefgh", "uvwxyz"), rng.normal(size=48), strict=True))
    pair = np.array([effect[c, p] for c, p in zip(city, plan, strict=True)])
    return frame, 3.0 * (frame.a / frame.b > 1).to_numpy() + 2 * pair + own + 0.3 * rng.normal(size=n)


def made_names(fitted: Any) -> list[str]:
    """Return the names of the columns that generate has kept."""
    return [state["column"] for state in fitted.features.states if state["op"] == "Generate" and "family" in state]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Any:
    from tests.features.conftest import Fit

    frame, y = planted()
    return {view: Fit(frame, [{"generate": {}}], y, view) for view in ("codes", "dense")}


def test_finds_a_ratio_a_combination_and_a_number_relative_to_its_group(found: Any) -> None:
    names = made_names(found["codes"])
    assert {"a / b", "city x plan (target)", "load (z-score by city)"} <= set(names)
    assert len(names) <= 6  # copies of the same information are not kept


def test_all_views_share_the_selection_and_list_the_inputs(found: Any) -> None:
    assert made_names(found["dense"]) == made_names(found["codes"])
    for made in found.values():
        lineage = made.features.lineage
        assert lineage["a / b"] == ["a", "b"]
        assert lineage["city x plan (target)"] == ["city", "plan"]
        assert lineage["load (z-score by city)"] == ["load", "city"]
        assert any("of" in note and "candidates are kept" in note for note in made.features.notes)


def test_values_are_those_of_pandas_and_of_the_ordinary_ops(found: Any, fit) -> None:
    frame, y = planted()
    got = found["codes"].training
    np.testing.assert_allclose(got["a / b"], frame.a / frame.b, rtol=1e-6)
    by_city = frame.load.groupby(frame.city)
    relative = (frame.load - by_city.transform("mean")) / by_city.transform("std", ddof=0)
    np.testing.assert_allclose(got["load (z-score by city)"], relative, atol=2e-5)
    ops = [{"cross": {"columns": ["city", "plan"], "as": "both"}}, {"target_encode": "both"}]
    expected = fit(frame, ops, y, view="codes").training
    np.testing.assert_array_equal(got["city x plan (target)"], expected["both_target"])


def test_the_columns_of_linear_models_are_bounded_and_standardized(found: Any) -> None:
    training = found["dense"].training
    for name in made_names(found["dense"]):
        assert abs(training[name].mean()) < 0.1
        assert training[name].abs().max() < 12


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_class", [False, True])
def test_noise_is_not_kept(fit, seed: int, is_class: bool) -> None:
    rng = np.random.default_rng(seed)
    noise = {f"n{i}": rng.normal(size=600) for i in range(8)} | {
        f"k{i}": rng.choice(list("abcd"), 600) for i in range(3)
    }
    y = 2 * rng.normal(size=600) + noise["n0"]
    made = fit(noise, [{"generate": {}}], (y > 0).astype(int) if is_class else y, view="codes", seed=seed)
    assert not made_names(made)
    assert any(note.startswith("generate: none of") for note in made.features.notes)


def test_a_note_says_that_the_columns_cannot_be_combined(fit) -> None:
    made = fit({"a": np.arange(400.0)}, [{"generate": {}}], np.arange(400.0) % 7, view="codes")
    assert any(note.startswith("generate: no candidate: it combines two numbers") for note in made.features.notes)


def test_combinations_that_occur_once_each(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: pd.Categorical(rng.integers(0, 120, 450).astype(str)) for name in ("k", "m")})
    made = fit(frame, [{"generate": {}}], rng.integers(0, 2, 450), view="codes")
    assert not made_names(made)


def test_classes_have_a_target_encoding_each(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": rng.choice(list("abcdef"), N), "m": rng.choice(list("uvwxyz"), N)})
    y = (frame.k.map(ord) * 7 + frame.m.map(ord) * 5) % 3
    made = fit(frame, [{"generate": {"groups": 0}}], y.to_numpy(), view="codes")
    assert {"k x m (target) 0", "k x m (target) 1", "k x m (target) 2"} <= set(made.names)


def test_the_encoding_of_each_class_has_its_own_limits(fit, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    k, m = rng.integers(0, 6, (2, N))
    share = rng.choice([0.05, 0.3], (6, 6))[k, m]  # of class 1; class 0 has 65 % of the rows of every combination
    draw = rng.uniform(size=N)
    y = np.where(draw < share, 1, np.where(draw < 0.35, 2, 0))
    candidate = FeatureCandidate("crosses", "target", ("k", "m"))

    def select(self: selection.FeatureSelector) -> selection.GeneratedSelection:
        feature = selection.SelectedFeature.of(candidate, 0.1, self.sample.columns_of(candidate))
        return selection.GeneratedSelection((feature,), {"crosses": 1})

    monkeypatch.setattr(selection.FeatureSelector, "select", select)
    frame = pd.DataFrame({"k": [f"k{i}" for i in k], "m": [f"m{i}" for i in m]})
    made = fit(frame, [{"generate": {}}], y, view="dense")
    for name, sign in (("k x m (target) 1", 1), ("k x m (target) 2", -1)):
        assert np.corrcoef(made.training[name], sign * share)[0, 1] > 0.8


def test_limits_and_selection_of_columns(fit) -> None:
    frame, y = planted()
    settings = {"columns": ["a", "b", "city", "load"], "crosses": 0, "groups": 1, "arithmetic": 1}
    kept = [s for s in fit(frame, [{"generate": settings}], y, view="codes").features.states if "family" in s]
    assert sorted((state["family"], *state["inputs"]) for state in kept) == [
        ("arithmetic", "a", "b"),
        ("groups", "load", "city"),
    ]


def test_the_selection_does_not_depend_on_the_number_of_threads(found: Any, fit) -> None:
    frame, y = planted()
    assert fit(frame, [{"generate": {}}], y, "codes", n_threads=1).features.states == found["codes"].features.states


def test_candidates_are_ranked_on_other_rows_than_they_are_tested_on(
    found: Any, fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Recorded(shortlist.ShortlistFinder):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(shortlist, "LEAST_RANKING_ROWS", 100)
    monkeypatch.setattr(shortlist, "LEAST_TESTED", 4)
    monkeypatch.setattr(selection, "ShortlistFinder", Recorded)
    frame, y = planted(n=6000)
    noise = np.random.default_rng(1).normal(size=(4, 6000))
    fitted = fit(frame.assign(**{f"n{i}": own for i, own in enumerate(noise)}), [{"generate": {}}], y, view="codes")
    assert {"a / b", "city x plan (target)"} <= set(made_names(fitted))
    assert any(name.startswith("load") and name.endswith("by city)") for name in made_names(fitted))
    (finder,) = made
    ranks, tests = finder._ranks, finder._tests.mask
    assert ranks.sum() == 1000
    np.testing.assert_array_equal(ranks.astype(int) + tests, finder.sample.is_screened)


def test_the_ranking_compares_combinations_of_many_levels_with_those_of_few() -> None:
    rng = np.random.default_rng(0)
    n = 12_000
    cells = rng.integers(0, 1024, n)
    noise = {size: rng.integers(0, size, n) for size in (4, 64, 1024, 4096)}
    residuals = (0.15 * rng.normal(size=1024)[cells] + rng.normal(size=n))[:, None]
    folds = rng.permutation(n) % 5
    screen = Screen.permuted(residuals, folds, 5, choose("cpu"), rng, 0)
    (own, *others) = screen.score_cells([(cells, 1024), *((of_noise, size) for size, of_noise in noise.items())])[:, 0]
    assert own > 1.5 * max(others)  # it loses rows without signal to the smoothing: its plain score is negative
    assert max(map(abs, others)) < 0.003


def test_works_without_xgboost(fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_model, "find_spec", lambda name: None)
    frame, y = planted(n=6000)
    for target in (y, (y > np.median(y)).astype(int)):
        made = fit(frame, [{"generate": {"columns": ["a", "b", "city", "plan"]}}], target, view="codes")
        assert "a / b" in made_names(made)
        assert target is not y or "city x plan (target)" in made_names(made)
        assert [state["library"] for state in made.features.states if "library" in state] == ["scikit-learn"]


def test_later_ops_select_the_columns(fit) -> None:
    frame, y = planted()
    settings = {"columns": ["a", "b"]}
    made = fit(frame, [{"generate": settings}, {"log1p": "a / b"}, {"drop": ["a", "b"]}], y, view="codes")
    np.testing.assert_allclose(made.training["a / b"], np.log1p(frame.a / frame.b), rtol=1e-5)
    assert "a" not in made.names


def test_uses_the_columns_as_earlier_ops_left_them_in_every_view(fit) -> None:
    frame, y = planted()
    ops = [{"auto": ["a", "b"]}, {"generate": {"columns": ["a", "b"]}}]
    codes, dense = (fit(frame, ops, y, view=view) for view in ("codes", "dense"))
    assert made_names(codes) == made_names(dense) != []


def test_the_second_op_does_not_repeat_the_first(fit) -> None:
    frame, y = planted()
    settings = {"columns": ["a", "b"]}
    made = fit(frame, [{"generate": settings}, {"generate": settings}], y, view="codes")
    assert made.names.count("a / b") == 1


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        (400, None, "generate requires a target"),
        (299, np.arange(299.0), "at least 300 training rows; got 299"),
    ],
)
def test_refusals(fit, rows: int, y: Array, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit({"a": np.arange(float(rows)), "b": np.ones(rows)}, [{"generate": {}}], y)


@examples(5)
@given(seed=st.integers(0, 999), n_null=st.integers(0, 60))
def test_single_rows_equal_the_batch(fit, seed: int, n_null: int) -> None:
    frame, y = planted(seed, 600)
    rows = np.random.default_rng(seed).permutation(600)
    frame.loc[rows[:n_null], "load"] = np.nan
    frame.loc[rows[-n_null or 600 :], "city"] = None
    frame["a"] = frame.a.where(frame.index % 50 != 0, 0.0)
    made = fit(frame, [{"generate": {"arithmetic_candidates": 20}}], y, view="codes")
    whole = made.features.transform(made.table, made.backend)
    mask = np.zeros(600, bool)
    mask[rows[0]] = True
    one = made.features.transform(made.table.take(mask, made.backend), made.backend)
    np.testing.assert_array_equal(one, whole[mask])
