"""Arrow arrays and tables: viewed without a copy if they are one array, otherwise refused with the reason."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import DataError
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover import hand_over

MATRIX = np.asfortranarray(np.arange(40, dtype="float32").reshape(10, 4))
FLOATS = pa.float32()


def table_of(X: np.ndarray) -> pa.Table:
    """Return a table whose columns are those of a matrix, over its memory."""
    return pa.table({f"c{j}": pa.array(X[:, j]) for j in range(X.shape[1])})


def address(array: pa.Array) -> int:
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint16"])
def test_numbers_are_handed_over_without_a_copy(dtype: str) -> None:
    whole = pa.array(np.arange(9).astype(dtype))
    for array in (whole, whole[2:7], whole[9:]):
        for source in (array, pa.chunked_array([array])):
            tensor = to_torch(source)
            assert tensor.data_ptr() == (address(array) if len(array) else 0)
            assert str(tensor.dtype) == f"torch.{dtype}"
            assert tensor.tolist() == array.to_pylist()


def test_writes_to_the_tensor_are_visible_in_the_array() -> None:
    array = pa.array([1.0, 2.0, 3.0])
    to_torch(array)[1] = 7
    assert array.to_pylist() == [1, 7, 3]


def test_the_tensor_outlives_the_table() -> None:
    table = table_of(MATRIX.copy(order="F"))
    tensor = to_torch(table)
    del table
    gc.collect()
    assert [pa.array(np.full(40, -1, "float32")) for _ in range(20)]
    np.testing.assert_array_equal(tensor.numpy(), MATRIX)


REFUSED: dict[str, tuple[Any, str]] = {
    "chunks": (pa.chunked_array([[1.0], [2.0], [3.0]]), "has 3 chunks"),
    "nulls": (pa.array([1.0, None, None]), "has 2 nulls"),
    "read-only": (pa.array(np.frombuffer(b"\0" * 16, "float64")), "is read-only"),
    "columns apart": (
        pa.table({"a": pa.array(MATRIX[:, 0]), "b": pa.array(MATRIX[:, 2])}),
        "not evenly spaced in one buffer",
    ),
    "columns turned": (table_of(MATRIX).select([1, 0]), "not evenly spaced in one buffer"),
    "the same column twice": (table_of(MATRIX).select([1, 1]), "not evenly spaced in one buffer"),
    "a null in a table": (pa.table({"a": [1.0, 2.0], "b": [None, 3.0]}), "has 1 null"),
    "chunks in a table": (pa.concat_tables([table_of(MATRIX), table_of(MATRIX)]), "has 2 chunks"),
    "a read-only tensor": (pa.Tensor.from_numpy(np.frombuffer(b"\0" * 16, "float64")), "is read-only"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_required_copy_is_explained_and_made_on_request(case: str) -> None:
    source, reason = REFUSED[case]
    with pytest.raises(DataError, match=f"without a copy: it .*{reason}(.|\n)*copy=True"):
        to_torch(source)
    tensor, receipt = hand_over(source, "torch", copy=True)
    expected = source.to_numpy() if isinstance(source, pa.Tensor) else _by_python(source)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert receipt.copied
    assert reason in receipt.reason


def _by_python(source: Any) -> np.ndarray:
    columns = source.columns if hasattr(source, "columns") else [source]
    found = np.array([[np.nan if x is None else x for x in column.to_pylist()] for column in columns])
    return found.T if hasattr(source, "columns") else found[0]


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize(
    ("source", "reason", "fix"),
    [
        (pa.array([1, None]), "has 1 null", "fill_null"),
        (pa.array(["a"]), "Arrow type string", "cast"),
        (pa.array([True]), "Arrow type bool", "cast"),
        (pa.array(["a"]).dictionary_encode(), "is dictionary-encoded", "array.indices"),
        (pa.array([0], pa.timestamp("s")), r"Arrow type timestamp\[s\]", "cast"),
        (pa.table({"a": [1.0], "b": [1]}), "different types: double, int64", "table.cast"),
        (pa.table({}), "no columns", "at least one"),
    ],
)
def test_inputs_that_no_copy_can_fix_are_refused_even_with_copy(source: Any, reason: str, fix: str, copy: bool) -> None:
    with pytest.raises(DataError, match=f"{reason}(.|\n)*{fix}") as refusal:
        to_torch(source, copy)
    assert "copy=True" not in str(refusal.value)


def test_the_codes_of_a_dictionary_are_handed_over() -> None:
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    assert to_torch(array.indices).tolist() == [0, 1, 0]


def test_a_table_over_a_matrix_is_that_matrix() -> None:
    X = MATRIX.copy(order="F")
    table = table_of(X)
    for source in (table, table.to_batches()[0]):
        tensor, receipt = hand_over(source, "torch")
        assert tensor.data_ptr() == X.ctypes.data
        assert receipt.strides == X.strides
        np.testing.assert_array_equal(tensor.numpy(), X)
    rows = to_torch(table.slice(2, 5))
    assert rows.data_ptr() == X[2:].ctypes.data
    assert rows.stride() == (1, 10)
    np.testing.assert_array_equal(rows.numpy(), X[2:7])


@pytest.mark.parametrize("table", [table_of(MATRIX)[:0], table_of(MATRIX)[3:4], table_of(MATRIX).select([2])])
def test_tables_of_few_rows_or_columns(table: pa.Table) -> None:
    tensor = to_torch(table)
    assert tuple(tensor.shape) == table.shape
    np.testing.assert_array_equal(tensor.numpy(), _by_python(table).reshape(table.shape))


def test_saving_a_tensor_of_a_table_reads_no_other_memory(tmp_path: Path) -> None:
    """A tensor is saved from its first byte to its last: between two columns there must be nothing but theirs."""
    apart = pa.table({"a": pa.array(MATRIX[:, 0]), "b": pa.array(MATRIX[:, 3])})
    with pytest.raises(DataError, match="not evenly spaced"):
        to_torch(apart)
    torch.save(to_torch(table_of(MATRIX)[1:9]), tmp_path / "tensor.pt")
    np.testing.assert_array_equal(torch.load(tmp_path / "tensor.pt").numpy(), MATRIX[1:9])


def test_a_memory_mapped_file_is_viewed_but_not_handed_to_pytorch() -> None:
    table = table_of(np.asfortranarray(np.arange(128, dtype="float32").reshape(32, 4)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    read = pa.ipc.open_file(sink.getvalue()).read_all()
    array = from_dlpack(read)
    assert array.ctypes.data == address(read["c0"].chunk(0))
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, _by_python(table))
    with pytest.raises(DataError, match="is read-only"):
        to_torch(read)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_tensor_of_arrow_keeps_its_strides(order: str) -> None:
    X = np.array(MATRIX, order=order)  # type: ignore[call-overload]
    tensor, receipt = hand_over(pa.Tensor.from_numpy(X), "torch")
    assert tensor.data_ptr() == X.ctypes.data
    assert receipt.strides == X.strides


@given(st.lists(st.lists(st.none() | st.floats(width=32), max_size=5), max_size=4), st.integers(0, 4))
def test_a_copy_has_the_values_of_all_chunks(chunks: list[list[float | None]], start: int) -> None:
    array = pa.chunked_array([pa.array(chunk, FLOATS) for chunk in chunks], FLOATS)[start:]
    expected = np.array([np.nan if x is None else x for x in array.to_pylist()], "float32")
    np.testing.assert_array_equal(to_torch(array, copy=True).numpy(), expected)
