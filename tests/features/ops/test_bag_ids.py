"""bag_ids against a dict of the items of the training rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.ops import bag_ids
from tests.examples import examples

ITEMS = st.sampled_from(["b", "a", "ü", "", "c d"]) | st.none()
LISTS = st.lists(st.none() | st.lists(ITEMS, max_size=6), min_size=2, max_size=12)


def frame(lists: list[Any], **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"tags": pd.Series(lists, dtype=object), "x": np.arange(len(lists), dtype=float), **more})


def program(**settings: Any) -> gp.FeatureProgram:
    return gp.FeatureProgram([{"bag_ids": {"columns": "tags", **settings}}], view="codes")


def bags(ids: Any, offsets: Any) -> list[list[int]]:
    assert ids.dtype == offsets.dtype == np.int32 and offsets[0] == 0
    return [ids[a:b].tolist() for a, b in pairwise(offsets.tolist())]


def vocabulary(lists: list[Any], most: int | None, least: int) -> dict[Any, int]:
    """Return the id of each frequent item, by the number of lists that contain it."""
    known = [{item for item in each or () if item is not None} for each in lists]
    counts = {item: sum(item in each for each in known) for item in sorted(set().union(*known))}
    kept = [item for item in sorted(counts, key=lambda item: (-counts[item], item)) if counts[item] >= least]
    return {None: 0} | {item: i for i, item in enumerate(sorted(kept[:most]), start=3)}


@examples(60)
@given(LISTS, LISTS, st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 2]))
def test_ids_match_a_dict(lists: list[Any], new: list[Any], most: int | None, least: int | None) -> None:
    fitted = program(max_levels=most, min_frequency=least).fit(frame(lists))
    ids = vocabulary(lists, most, least or 1)
    for rows in (lists, new):
        assert bags(*fitted.bags(frame(rows))["tags"]) == [[ids.get(i, 1) for i in each or ()] for each in rows]


def test_other_items_are_hashed_to_the_ids_after_the_levels() -> None:
    fitted = program(max_levels=1, buckets=4).fit(frame([[7, 7.5], [7], [8]]))
    (first, *others), new = bags(*fitted.bags(frame([[7, 7.5, 8], [9, 7.5]]))["tags"])
    assert first == 3 and {*others, *new} <= set(range(4, 8)) and new[1] == others[0]


def test_given_levels_keep_their_order_and_need_items_of_their_kind() -> None:
    fitted = program(levels=["b", "a"], prefix="my_").fit(frame([["a"], ["c", "b"]]))
    assert bags(*fitted.bags(frame([["a", "b", "c"]]))["my_tags"]) == [[4, 3, 1]]
    with pytest.raises(ConfigError, match=r"the level 7\.0 needs lists of numbers; 'tags' has lists of texts"):
        program(levels=[7]).fit(frame([["a"], ["b"]]))


def test_two_bags_of_one_name_are_refused() -> None:
    ops = [{"bag_ids": {"columns": "tags", "levels": [level]}} for level in "ab"]
    fitted = gp.FeatureProgram(ops, view="codes").fit(frame([["a"], ["b"]]))
    with pytest.raises(ConfigError, match="two ops make the bag 'tags'"):
        fitted.bags(frame([["a"], ["b"]]))


def test_more_items_than_an_offset_counts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_ids, "MOST_ITEMS", 2)
    with pytest.raises(LimitError, match="'tags' has 3 items; the limit is 2"):
        program().fit(frame([["a"]] * 3)).bags(frame([["a"]] * 3))


def test_tensors_number_the_items_of_the_training_rows_and_models_do_not_read_them(tmp_path: Path) -> None:
    lists = [["only in test"] if i % 4 == 3 else ["a", "b"][: i % 3] for i in range(40)]
    data = frame(lists, part=["test" if i % 4 == 3 else "train" for i in range(40)], y=[i % 2 for i in range(40)])
    pipe = gp.Pipeline(
        data,
        target="y",
        split={"column": {"name": "part", "test": ["test"]}},
        features=[{"bag_ids": "tags"}, {"list_stats": {"columns": "tags", "stats": ["length"]}}],
        models=["logistic_regression"],
    )
    train, test = pipe.tensors()
    ids = {"a": 3, "b": 4}
    assert bags(*test.bags["tags"]) == [[1]] * 10
    assert bags(*train.bags["tags"]) == [[ids[i] for i in each] for each in lists if each != ["only in test"]]
    assert train.metadata.vocabularies == {"tags": ("a", "b")} and train.metadata.bag_cardinalities == {"tags": 5}
    run = pipe.run(tmp_path / "run", quiet=True)
    model = gp.load_model(run.path, "cpu")
    assert model.features.derivation is not None
    assert [op.title() for op in model.features.derivation.ops] == ["list_stats"]


def test_a_model_without_other_features_of_lists_does_not_need_the_column(tmp_path: Path) -> None:
    data = frame([["a"], ["b"]] * 20, y=[0, 1] * 20)
    pipe = gp.Pipeline(data, target="y", features=[{"bag_ids": "tags"}], models=["logistic_regression"])
    model = gp.load_model(pipe.run(tmp_path / "run", quiet=True).path, "cpu")
    assert model.inputs == ("x",) and model.features.derivation is None
    assert len(model.predict(data.drop(columns="tags"))) == 40
