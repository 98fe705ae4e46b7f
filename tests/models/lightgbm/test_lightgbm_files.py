"""Corrupt and malicious text models of LightGBM are rejected, and never reach LightGBM."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.files.description import Description
from gpupipe.models.lightgbm.trees import END, read_trees

EXPECTED = Description("multiclass", (), 3, (0, 1, 2))


@pytest.fixture(scope="module")
def text(backend: Any) -> str:
    """A model of three classes with numeric and categorical splits."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(np.stack([rng.normal(size=400), rng.integers(0, 70, 400)], axis=1), np.float32)
    y = (X[:, 1] % 3).astype(np.int64)
    context = FitContext(backend, "multiclass", 0, 3, {1: 70}, ("a", "b"))
    model = fit(MODELS.get("lightgbm")(n_estimators=2, min_data_per_group=1, cat_smooth=1, num_leaves=5), X, y, context)
    found: str = model.estimator.data.decode()
    assert "cat_threshold" in found
    return found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version=v4", "version=v9", "version v4; got 'v9'"),
        ("tree\n", "forest\n", "not a complete text model"),
        (END, "", "not a complete text model"),
        ("max_feature_idx=1", "max_feature_idx=-1", "max_feature_idx is -1"),
        ("max_feature_idx=1", "max_feature_idx=42949672951", "does not name its 42,949,672,952 columns"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=2", "2 outputs"),
        ("objective=multiclass num_class:3", "objective=regression", "does not match the task"),
        ("objective=multiclass num_class:3", "objective=multiclass num_class:4", "unsupported settings"),
        ("label_index=0", "average_output", "random forest"),
        ("Tree=1", "Tree=7", "expected the tree 1; got '7'"),
        ("num_leaves=", "num_leaves=9", "numbers of"),
        (r"left_child=\S+", "left_child=99", "child that does not exist"),
        (r"left_child=\S+", "left_child=0", "child that does not exist"),
        (r"left_child=\S+", "left_child=9223372036854775807", "child that does not exist"),
        (r"left_child=\S+", "left_child=x", "not a number"),
        (r"left_child=\S+", "left_child=99999999999999999999", "not a number"),
        (r"split_feature=\S+", "split_feature=-1", "reads column"),
        (r"decision_type=\S+", "decision_type=16", "decision types"),
        (r"decision_type=\S+", "decision_type=5", "decision types"),
        (r"decision_type=\S+", "decision_type=2", "category sets do not"),
        (r"num_cat=\d+", "num_cat=1000000000000", "category sets do not"),
        ("leaf_value=", "leaf_value=nan ", "numbers of leaf_value"),
        ("cat_boundaries=0", "cat_boundaries=1", "bounds of its category sets"),
        ("\ncat_threshold=", "\ncat_threshold=1 ", "numbers of cat_threshold"),
        ("is_linear=0", "is_linear=1", "linear models"),
        ("shrinkage=", "leaf_value=", "occurs twice"),
    ],
)
def test_a_field_that_lightgbm_cannot_have_written_is_named(text: str, old: str, new: str, message: str) -> None:
    assert re.search(old, text)
    with pytest.raises(ValueError, match=message):
        read_trees(re.sub(old, new, text, count=1).encode(), EXPECTED)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_text_is_refused_or_has_trees_within_bounds(text: str, data: st.DataObject) -> None:
    content = bytearray(text.partition("feature_importances")[0].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.sampled_from(
            [b"9", b"-", b" ", b"\n", b"=", b"inf", b"4294967295"]))  # fmt: skip
    try:
        trees = read_trees(bytes(content), EXPECTED)
    except ValueError:
        return
    packed = trees.packed
    children = packed.nodes["child"]
    assert ((children >= 0) & (children < len(packed.nodes))).all()
    assert (packed.nodes["column"] < packed.width).all()
    assert np.isfinite(packed.values).all()
