"""Compilation of chains of ops: one column in, one column out, compared with float64 step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, RobustScaler, StandardScaler

from tests.examples import examples

OPS = {
    "impute": ({"impute": "x"}, lambda: SimpleImputer(strategy="median")),
    "log1p": ({"log1p": "x"}, lambda: FunctionTransformer(np.log1p)),
    "clip": ({"clip": {"columns": "x", "lower": 0.25, "upper": 40}}, lambda: FunctionTransformer(_clip)),
    "standardize": ({"standardize": "x"}, StandardScaler),
    "min_max": ({"min_max": "x"}, MinMaxScaler),
    "robust_scale": ({"robust_scale": "x"}, RobustScaler),
}


def _clip(x: np.ndarray) -> np.ndarray:
    return np.clip(x, 0.25, 40)


def test_impute_log1p_standardize_is_one_column(fit) -> None:
    x = np.random.default_rng(0).lognormal(12, 1.5, 999)
    x[::10] = np.nan
    made = fit({"x": x}, [{"impute": "x"}, {"log1p": "x"}, {"standardize": "x"}])
    reference = make_pipeline(SimpleImputer(strategy="median"), FunctionTransformer(np.log1p), StandardScaler())
    assert made.names == ["x"]
    np.testing.assert_allclose(made.training["x"], reference.fit_transform(x[:, None])[:, 0], rtol=1e-4, atol=3e-6)
    assert made.training["x"].mean() == pytest.approx(0, abs=3e-6)


@examples(80)
@given(
    # Values of one sign: a logarithm after a scaling has its pole at -1, where no precision is enough.
    x=st.lists(st.integers(1, 2000).map(lambda i: i / 16) | st.just(float("nan")), min_size=3, max_size=50),
    chain=st.lists(st.sampled_from(list(OPS)), min_size=1, max_size=5),
)
def test_a_chain_matches_scikit_learn_step_by_step(fit, x: list[float], chain: list[str]) -> None:
    if np.isnan(x).all():
        x[0] = 1.0
    # Scaled values are around 0 or below -1, where log1p has a separate test.
    chain = [name for i, name in enumerate(chain) if name != "log1p" or not SCALINGS & set(chain[:i])]
    if not chain:
        return
    got = fit({"x": x}, [OPS[name][0] for name in chain], view="codes").training["x"]
    reference = make_pipeline(*[OPS[name][1]() for name in chain]).fit_transform(np.array(x)[:, None])[:, 0]
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-4 * max(1.0, np.nanmax(np.abs(reference))))


SCALINGS = {"standardize", "min_max", "robust_scale"}


def test_a_program_reads_each_training_row_where_the_table_holds_it(fit) -> None:
    """Columns of every block, in an order that is not the blocks'."""
    rng = np.random.default_rng(5)
    frame: dict[str, Any] = {
        "f64": rng.normal(size=50),
        "c8": rng.choice(["a", "b"], 50),
        "f32": rng.integers(0, 9, 50),
        "c16": [f"level {i % 25:03d}" if i % 2 else f"other {i}" for i in range(50)],
        "t": np.datetime64("2021-03-04T05:06:07") + rng.integers(0, 10**6, 50),
        "f64b": rng.normal(size=50),
    }
    ops = [{"categorify": ["c16", "c8"]}, {"datetime_parts": {"columns": "t", "parts": ["day"]}}]
    made = fit(frame, ops, view="codes")
    assert made.names == ["c16", "c8", "t_day", "f64", "f32", "f64b"]
    for name in ("f64", "f32", "f64b"):
        np.testing.assert_allclose(made.training[name], frame[name], rtol=1e-6)
    assert made.training["c8"].tolist() == [3 if level == "a" else 4 for level in frame["c8"]]
    assert made.training["c16"].tolist() == [3 + sorted(set(frame["c16"])).index(level) for level in frame["c16"]]
