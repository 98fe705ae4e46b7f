"""Conversion of CatBoost's JSON model to the arrays that gpupipe stores.

Source: CatBoost's documentation of the JSON model, and ``catboost/libs/model`` of CatBoost 1.2.10 (``ctr_provider``,
``ctr_helpers``, ``evaluation_interface``) for hashes and statistics. All numbers are float32 there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.models.catboost.trees import DTYPES, CatBoostTrees

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

NO_HASH = (1 << 64) - 1  # an empty bucket
LOG_LOSSES = ("Poisson", "Tweedie")
KINDS = {"cat_feature_value": 0, "float_feature": 1, "cat_feature_exact_value": 2}


def trees_from_json(document: Mapping[str, Any], importance: Sequence[float]) -> CatBoostTrees:
    """Return the trees of a model from the content of ``save_model(path, format="json")``.

    `importance` is that of each column. Raise ValueError if the model has parts that gpupipe does not train.
    """
    scale, bias = document["scale_and_bias"]
    features = document["features_info"]
    if scale != 1 or "oblivious_trees" not in document or features.get("text_features"):
        raise ValueError("expected oblivious trees of numbers and categories, with scale 1")
    tests = _Tests(features)
    statistics = _Statistics(tests, document.get("ctr_data", {}), features.get("ctrs", []))
    trees = document["oblivious_trees"]
    splits = [[split["split_index"] for split in tree["splits"] or ()] for tree in trees]
    leaves = [
        np.array(tree["leaf_values"], np.float64).reshape(1 << len(own), -1)
        for tree, own in zip(trees, splits, strict=True)
    ]
    loss = document["model_info"]["params"]["loss_function"]["type"]
    arrays: dict[str, Any] = {
        **tests.arrays, **statistics.arrays,
        "tree_depth": [len(own) for own in splits], "tree_test": list(chain.from_iterable(splits)),
        "leaf": np.concatenate(leaves), "bias": bias, "is_log": [loss in LOG_LOSSES], "importance": importance,
        "leaf_weight": np.concatenate([np.array(tree["leaf_weights"], np.float64) for tree in trees]),
    }  # fmt: skip
    return CatBoostTrees(**{name: np.ascontiguousarray(arrays[name], dtype) for name, dtype in DTYPES.items()})


class _Tests:
    """Tests on numbers and categories, in CatBoost's order."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        numbers, categories = features.get("float_features", []), features.get("categorical_features", [])
        self.number_columns = {f["feature_index"]: f["flat_feature_index"] for f in numbers}
        self.category_columns = {f["feature_index"]: f["flat_feature_index"] for f in categories}
        over: list[tuple[int, float, bool]] = []
        for f in numbers:
            borders = f["borders"] or ()
            over += [(f["flat_feature_index"], border, f["nan_value_treatment"] == "AsTrue") for border in borders]
        equal: list[tuple[int, Any]] = []
        for f in categories:
            equal += [(f["flat_feature_index"], value % (1 << 32)) for value in f.get("values") or ()]
        self.position = {(1, column, np.float32(border)): i for i, (column, border, _) in enumerate(over)}
        self.position |= {(2, column, value): len(over) + i for i, (column, value) in enumerate(equal)}
        self.arrays = {
            "number_column": [column for column, _, _ in over],
            "number_border": [border for _, border, _ in over],
            "number_missing": [missing for _, _, missing in over],
            "category_column": [column for column, _ in equal],
            "category_hash": [value for _, value in equal],
        }

    def part(self, element: Mapping[str, Any]) -> tuple[int, int]:
        """Return the kind and the position of a part of a combination: a column of categories, or a test."""
        kind = KINDS[element["combination_element"]]
        if kind == 0:
            return 0, self.category_columns[element["cat_feature_index"]]
        if kind == 1:
            column = self.number_columns[element["float_feature_index"]]
            return 1, self.position[1, column, np.float32(element["border"])]
        return 2, self.position[2, self.category_columns[element["cat_feature_index"]], element["value"] % (1 << 32)]


class _Statistics:
    """Combinations, tables and values of statistics."""

    def __init__(self, tests: _Tests, tables: Mapping[str, Any], statistics: Sequence[Mapping[str, Any]]) -> None:
        combinations: dict[tuple[tuple[int, int], ...], int] = {}
        hashes: list[HostArray] = []
        table_combination: list[int] = []
        table_of: dict[str, tuple[int, HostArray, int]] = {}
        for name, table in tables.items():
            elements = json.loads(name)["identifier"]
            combination = tuple(sorted((tests.part(element) for element in elements), key=lambda part: part[0]))
            cells = np.array(table["hash_map"], object).reshape(-1, table["hash_stride"])
            keys = np.array([int(key) for key in cells[:, 0]], np.uint64)
            order = np.argsort(keys)
            order = order[keys[order] != np.uint64(NO_HASH)]
            table_of[name] = len(hashes), cells[order, 1:].astype(np.float64), table["counter_denominator"]
            hashes.append(keys[order])
            table_combination.append(combinations.setdefault(combination, len(combinations)))
        values = [_values(statistic, *table_of[statistic["identifier"]][1:]) for statistic in statistics]
        borders = [statistic["borders"] for statistic in statistics]
        parts_of = list(combinations)
        parts = list(chain.from_iterable(parts_of))
        self.arrays = {
            "part_is_test": [kind > 0 for kind, _ in parts],
            "part": [position for _, position in parts],
            "combination_start": np.cumsum([0, *map(len, parts_of)]), "table_combination": table_combination,
            "table_start": np.cumsum([0, *map(len, hashes)]),
            "table_hash": np.concatenate([np.zeros(0, np.uint64), *hashes]),
            "statistic_table": [table_of[statistic["identifier"]][0] for statistic in statistics],
            "statistic_value": np.concatenate(values) if values else [],
            "test_statistic": list(chain.from_iterable([i] * len(own) for i, own in enumerate(borders))),
            "test_border": list(chain.from_iterable(borders)),
        }  # fmt: skip


def _values(statistic: Mapping[str, Any], counts: HostArray, denominator: int) -> HostArray:
    """Return the statistic of each combination of a table, and of any other one: float32."""
    kind = statistic["ctr_type"]
    if kind == "Counter":
        good, total = counts[:, 0], np.full(len(counts), denominator)
        other = denominator
    elif kind == "Borders":
        good = counts[:, statistic["target_border_idx"] + 1 :].sum(axis=1)
        total = counts.sum(axis=1)
        other = 0
    else:
        raise ValueError(f"it has statistics of the type {kind!r:.40}, which gpupipe does not train")
    prior, weight, shift, scale = (
        np.float32(statistic[name]) for name in ("prior_numerator", "prior_denomerator", "shift", "scale")
    )
    good, total = np.append(good, 0).astype(np.float32), np.append(total, other).astype(np.float32)
    return ((good + prior) / (total + weight) + shift) * scale
