"""A batch of any library's arrays, and ids written in place."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpupipe.backends import choose
from gpupipe.errors import ConfigError, DataError
from gpupipe.tensors import batch as module
from gpupipe.tensors.bags import IdBags
from gpupipe.tensors.batch import EXACT_IDS, Metadata, TensorBatch
from tests.backends import double

NUMBERS = np.array([[1, np.nan], [np.inf, 0], [-0.0, 3]], "float32")


def matrix(values: Any) -> np.ndarray:
    """Return values as gpupipe lays out a feature matrix."""
    values = np.asarray(values, "float32")
    X = np.asarray(choose("cpu").empty_matrix(*values.shape))
    X[:] = values
    return X


@pytest.mark.parametrize("asarray", [np.asarray, torch.asarray, array_api_strict.asarray])
def test_nulls_are_where_a_feature_is_nan_in_every_library(asarray: Any) -> None:
    features = asarray(NUMBERS)
    batch = TensorBatch(features, target=asarray(np.arange(3)))
    assert len(batch) == 3
    assert type(batch.nulls) is type(features)
    assert "bool" in str(batch.nulls.dtype)
    np.testing.assert_array_equal(np.from_dlpack(batch.nulls), np.isnan(NUMBERS))


@pytest.mark.parametrize("asarray", [torch.asarray, array_api_strict.asarray])
def test_a_batch_of_any_library_is_handed_over(asarray: Any) -> None:
    features = asarray(NUMBERS)
    tensor = torch.from_dlpack(TensorBatch(features))  # type: ignore[attr-defined]  # PyTorch's __all__ lacks it
    assert tensor.data_ptr() == np.from_dlpack(features).ctypes.data
    found = TensorBatch(features, target=asarray(np.arange(3))).to("numpy")
    assert type(found.features) is type(found.target) is np.ndarray
    assert found.features.ctypes.data == np.from_dlpack(features).ctypes.data


def test_to_hands_over_all_arrays_and_keeps_their_roles() -> None:
    known = Metadata(("a", "b"), vocabularies={"c": ("x", "y")}, labels=("no", "yes"), task="binary")
    batch = TensorBatch.of_matrix(
        matrix([[1, 2, 3], [4, 5, 4]]), {"c": 5}, target=np.array([0, 1]), weight=np.ones(2, "float32"), metadata=known
    )
    batch = replace(batch, bags={"tags": IdBags(np.array([3, 4, 0], "int32"), np.array([0, 1, 3], "int32"))})
    found, receipts = batch.hand_over("torch")
    assert list(receipts) == ["features", "ids", "target", "weight", "tags.ids", "tags.offsets"]
    for name, receipt in receipts.items():
        if "." in name:
            mine, theirs = ((each.bags["tags"]._asdict()[name.partition(".")[2]]) for each in (batch, found))
            assert receipt.pointer == mine.ctypes.data == theirs.data_ptr()
            continue
        assert receipt.pointer == getattr(batch, name).ctypes.data == getattr(found, name).data_ptr()
        assert not receipt.copied
    assert found.metadata is batch.metadata
    assert (found.metadata.labels, found.metadata.vocabularies) == (("no", "yes"), {"c": ("x", "y")})
    assert found.target is not None
    assert found.target.dtype is torch.int64
    assert repr(found) == (
        "<TensorBatch of torch: features (2, 2) torch.float32, ids (2, 1) torch.int32, target (2,) torch.int64, "
        "weight (2,) torch.float32, bags['tags'] (3,) torch.int32>"
    )


def test_missing_arrays_of_a_batch_are_missing_in_every_library() -> None:
    found, receipts = TensorBatch(matrix([[1.0]])).hand_over("torch", copy=True)
    assert (found.ids, found.target, found.weight) == (None, None, None)
    assert list(receipts) == ["features"]
    assert receipts["features"].copied


def test_one_array_that_cannot_be_handed_over_refuses_the_batch() -> None:
    target = np.arange(2.0)
    target.flags.writeable = False
    batch = TensorBatch(matrix([[1], [2]]), target=target)
    with pytest.raises(DataError, match="is read-only"):
        batch.to("torch")
    assert batch.to("torch", copy=True).target is not None


def test_arrays_of_other_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="features has 3, target has 2"):
        TensorBatch(NUMBERS, target=np.arange(2))


def test_on_the_host_there_is_no_interface_of_a_device() -> None:
    batch = TensorBatch(NUMBERS)
    assert not hasattr(batch, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        batch.__cuda_array_interface__  # noqa: B018


def test_a_batch_cannot_be_changed_and_is_equal_to_itself_alone() -> None:
    batch = TensorBatch(NUMBERS)
    with pytest.raises(AttributeError):
        batch.features = NUMBERS  # type: ignore[misc]
    assert batch == batch
    assert batch != copy.copy(batch)


def test_ids_are_exact_up_to_the_limit_of_float32() -> None:
    X = matrix([[0.5, EXACT_IDS - 1], [1.5, EXACT_IDS - 2], [2.5, 0]])
    batch = TensorBatch.of_matrix(X, {"c": EXACT_IDS})
    assert batch.ids is not None
    assert batch.ids[:, 0].tolist() == [EXACT_IDS - 1, EXACT_IDS - 2, 0]
    with pytest.raises(ConfigError, match="got 16,777,217"):
        TensorBatch.of_matrix(X, {"c": EXACT_IDS + 1})


@given(
    arrays.arrays("float32", st.tuples(st.integers(0, 9), st.integers(0, 2))),
    st.data(),
    st.integers(0, 3),
)
def test_numbers_and_ids_share_the_matrix(numbers: np.ndarray, data: st.DataObject, c: int) -> None:
    ids = data.draw(arrays.arrays("int32", (len(numbers), c), elements=st.integers(0, EXACT_IDS - 1)))
    X = matrix(np.hstack([numbers, ids]))
    batch = TensorBatch.of_matrix(X, {f"c{j}": EXACT_IDS for j in range(c)})
    assert batch.features.tobytes() == numbers.tobytes()
    assert (batch.ids is None) is (c == 0)
    if batch.ids is not None:
        assert isinstance(batch.ids, np.ndarray)
        np.testing.assert_array_equal(batch.ids, ids)
        assert batch.ids.dtype == "int32"
        assert batch.ids.base is not None
        assert X.size == 0 or np.shares_memory(X, batch.ids)


def test_blocks_of_rows_make_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 3)
    values = np.column_stack([np.arange(10), np.arange(10)[::-1]])
    batch = TensorBatch.of_matrix(matrix(values), {"c": 10})
    assert batch.ids is not None
    assert batch.ids[:, 0].tolist() == list(range(9, -1, -1))
    X = matrix(values)
    X[7, 1] = 0.25
    with pytest.raises(DataError, match=r"0\.25(.|\n)*row 7 of the matrix"):
        TensorBatch.of_matrix(X, {"c": 10})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 2)), "dtype float64"),
        (np.zeros(3, "float32"), r"shape \(3,\)"),
        (np.zeros((3, 0), "float32"), r"shape \(3, 0\)"),
        (np.broadcast_to(np.float32(0), (3, 2)), "read-only"),
    ],
)
def test_a_matrix_that_cannot_hold_ids_is_refused(X: np.ndarray, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TensorBatch.of_matrix(X, {"c": 4})


def test_on_a_device_only_results_are_copied_to_the_host() -> None:
    X = double.xp.asarray(matrix([[1, 3], [2, 0], [np.nan, 2]]))
    double.uncounted.clear()
    batch = TensorBatch.of_matrix(X, {"c": 4})
    assert type(batch.features) is type(batch.ids) is type(batch.nulls) is double.DeviceArray
    assert double.xp.asnumpy(batch.ids).tolist() == [[3], [0], [2]]
    assert double.xp.asnumpy(batch.features).tolist()[:2] == [[1], [2]]
    assert [line.partition(" ")[2] for line in double.uncounted] == ["bool(array)"]  # is a cell of this block wrong?
