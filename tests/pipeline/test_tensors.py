"""Rows of a configuration as tensors: their values, the rows they were learned from, and their memory."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.datasets.churn import customers

ROWS = 3000
CHURN: dict[str, Any] = {
    "seed": 3,
    "device": "cpu",
    "source": {"generate": "churn", "rows": ROWS, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "split": {"test_size": 0.25},
    "features": [
        {"impute": {"columns": ["MonthlyCharges", "TotalCharges"]}},
        {"standardize": ["MonthlyCharges", "TotalCharges"]},
        {"encode": ["@categorical", "!City"]},
        {"target_encode": "City"},
    ],
}


def churn(**changes: Any) -> gp.Pipeline:
    return gp.Pipeline(parse_config(CHURN | changes))


def address(array: Any) -> int:
    """Return where an array of NumPy begins."""
    return array.__array_interface__["data"][0]


def test_the_dense_view_is_the_split_as_numbers() -> None:
    train, test = churn().tensors()
    assert (len(train), len(test)) == (2250, 750)
    assert train.ids is None and test.ids is None
    assert train.features.dtype == np.float32 and train.features.shape[1] == len(train.metadata.names)
    assert not train.nulls.any() and not test.nulls.any()
    assert train.metadata.task == "binary" and train.metadata.labels == ("No", "Yes")
    assert train.target is not None and test.target is not None and train.target.dtype == np.int64
    leaving = Counter(customers(ROWS, 7, ["Churn"]).column("Churn").to_pylist())["Yes"]
    assert train.target.sum() + test.target.sum() == leaving


def test_the_scale_is_learned_from_the_training_rows() -> None:
    train, test = churn().tensors()
    column = train.metadata.names.index("MonthlyCharges")
    scaled = train.features[:, column].astype(np.float64)
    assert scaled.mean() == pytest.approx(0.0, abs=1e-5) and scaled.std() == pytest.approx(1.0, abs=1e-5)
    assert test.features[:, column].mean() != pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("view", ["dense", "embedding"])
def test_nothing_is_learned_from_test_rows(view: Any, tmp_path: Path) -> None:
    table = customers(ROWS, 7)
    part = pa.array(np.where(np.arange(ROWS) % 4 == 0, "test", "train"))
    is_test = np.arange(ROWS) % 4 == 0
    charges = table.column("MonthlyCharges").to_numpy()
    found = []
    for name, values in (("as_it_is", charges), ("changed", np.where(is_test, charges * 9 + 100, charges))):
        changed = table.set_column(table.column_names.index("MonthlyCharges"), "MonthlyCharges", pa.array(values))
        pq.write_table(changed.append_column("part", part), tmp_path / f"{name}.parquet")
        source = {**CHURN["source"], "path": str(tmp_path / f"{name}.parquet"), "cache": False}
        del source["generate"], source["rows"]
        split = {"column": {"name": "part", "test": ["test"]}}
        found.append(churn(source=source, split=split).tensors(view=view))
    (train, test), (train_again, test_again) = found
    assert len(test) == is_test.sum()
    np.testing.assert_array_equal(train.features, train_again.features)
    assert (test.features != test_again.features).any()


def test_the_embedding_view_has_numbers_and_ids_that_the_vocabulary_names() -> None:
    train, test = churn().tensors(view="embedding")
    facts = train.metadata
    assert "Contract" in facts.id_names and "Contract" not in facts.names and "City" in " ".join(facts.names)
    assert facts == test.metadata and train.ids is not None and test.ids is not None
    table = customers(ROWS, 7)
    for j, name in enumerate(facts.id_names):
        ids = np.concatenate([train.ids[:, j], test.ids[:, j]])
        assert ids.dtype == np.int32 and ids.min() >= 0 and ids.max() < facts.cardinalities[j]
        words = Counter(facts.vocabularies[name][i - 3] for i in ids if i >= 3)
        known = {level: n for level, n in Counter(table.column(name).to_pylist()).items() if level in words}
        assert words == known, name


def test_a_batch_is_one_allocation() -> None:
    for batch in churn().tensors(view="embedding"):
        n, d = batch.features.shape
        assert batch.features.strides == (4, 4 * n)
        assert address(batch.ids) == address(batch.features) + 4 * n * d


def test_tensors_of_pytorch_are_views_that_outlive_the_pipeline() -> None:
    arrays = churn().tensors(view="embedding")[0]
    pipe = churn()
    train, _ = pipe.tensors("torch", view="embedding")
    del pipe
    gc.collect()
    assert isinstance(train.features, torch.Tensor) and train.features.stride() == (1, len(train))
    assert train.ids.data_ptr() == train.features.data_ptr() + 4 * train.features.numel()
    np.testing.assert_array_equal(train.features.numpy(), arrays.features)
    np.testing.assert_array_equal(train.target.numpy(), arrays.target)
    assert train.metadata == arrays.metadata


def test_of_a_cross_validation_it_is_the_first_fold() -> None:
    train, test = churn(split={"cv": 5}).tensors()
    assert (len(train), len(test)) == (ROWS * 4 // 5, ROWS // 5)


def test_a_number_to_predict_is_float32() -> None:
    source = {**CHURN["source"], "target": "MonthlyCharges"}
    del source["positive"]
    train, _ = churn(source=source, features=[{"encode": ["@categorical", "!City"]}]).tensors()
    assert train.target is not None and train.target.dtype == np.float32
    assert train.metadata.labels == () and train.metadata.task == "regression"
