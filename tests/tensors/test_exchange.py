"""Hand-overs on the host: the checks of every backend, and those of NumPy only."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import array_api_strict
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.backends.cpu.memory import ALIGNMENT
from gpupipe.errors import ConfigError, DataError, GpupipeError
from gpupipe.tensors.exchange import from_dlpack, to_torch
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.handover_obstacles import pointer
from gpupipe.tensors.libraries import LIBRARIES
from tests.tensors.exchange_checks import ExchangeChecks


class TestOnTheHost(ExchangeChecks):
    @pytest.fixture
    def backend(self) -> Backend:
        return choose("cpu")


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Foreign:
    """An array of an unknown library."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class Old(Foreign):
    """An array of a library that exports DLPack without a version."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self._array.__dlpack__()


Old.__module__ = "numpy.of_the_tests"  # the version in the message is that of the package


REFUSED_WITHOUT_A_COPY: dict[str, tuple[Any, str]] = {
    "read-only": (read_only(np.ones(3, "float32")), "is read-only"),
    "read-only through DLPack": (Foreign(read_only(np.ones(3, "float32"))), "is read-only"),
    "old DLPack": (Old(np.ones(3, "float32")), "is read-only"),
    "broadcast": (np.broadcast_to(np.float32(1), (3, 4)), "is read-only"),
    "big-endian": (np.ones(3, ">f4"), "byte order"),
    "odd strides": (np.ones(6, {"names": ["a"], "formats": ["f4"], "offsets": [0], "itemsize": 6})["a"], "multiples"),
    "not aligned": (np.frombuffer(bytearray(41), "uint8")[1:].view("float32"), "not aligned to 4 bytes"),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "objects": (np.array(["a"], object), "dtype object"),
    "texts": (np.array(["a"]), "dtype <U1"),
    "times": (np.array(["2026-01-01"], "M8[s]"), "datetime64"),
    "records": (np.zeros(3, "i4,f4"), "dtype"),
    "long doubles": (np.ones(3, "longdouble"), "dtype"),
    "masked": (np.ma.array([1.0, 2.0], mask=[False, True]), "has a mask"),
    "with gradients": (torch.ones(3, requires_grad=True), "detach"),
}


def test_an_old_version_of_dlpack_is_named_with_that_of_its_library() -> None:
    expected = f"{np.__version__} hands over DLPack before version 1.0".replace(".", r"\.")
    with pytest.raises(DataError, match=f"read-only, which tensors cannot be; numpy {expected}"):
        to_torch(Old(np.ones(3, "float32")))


@pytest.mark.parametrize("case", REFUSED_WITHOUT_A_COPY)
def test_a_required_copy_is_explained_and_made_on_request(case: str) -> None:
    source, reason = REFUSED_WITHOUT_A_COPY[case]
    with pytest.raises(DataError, match=f"without a copy: it .*{reason}(.|\n)*copy=True") as refusal:
        to_torch(source)
    assert refusal.value.exit_code == 5
    tensor, receipt = hand_over(source, "torch", copy=True)
    array = from_dlpack(source)
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert receipt.copied
    assert reason in receipt.reason
    assert receipt.pointer == tensor.data_ptr() != pointer(array)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_no_copy_can_fix_are_refused_even_with_copy(case: str, copy: bool) -> None:
    source, reason = REFUSED[case]
    with pytest.raises(DataError, match=reason) as refusal:
        hand_over(source, "numpy" if isinstance(source, torch.Tensor) else "torch", copy)
    assert "copy=True" not in str(refusal.value)


def test_a_mask_is_never_dropped() -> None:
    for library in ("torch", "numpy"):
        with pytest.raises(DataError, match="has a mask"):
            hand_over(np.ma.array([1.0, 2.0], mask=[False, True]), library)


@pytest.mark.parametrize("what", [[1, 2], "text", None, np.float32(3), pa.scalar(3.0), pd.Series([1.0])])
def test_an_object_that_is_not_an_array_is_a_configuration_error(what: Any) -> None:
    for call in (to_torch, from_dlpack):
        with pytest.raises(ConfigError, match="expected an array; got"):
            call(what)


def test_an_unknown_library_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'torch'"):
        hand_over(np.ones(3), "troch")


def test_a_library_that_is_missing_is_answered_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)  # as Python marks what cannot be imported
    with pytest.raises(ConfigError, match=r"pip install 'gpupipe\[torch\]'"):
        to_torch(np.ones(3))


def test_the_feature_matrix_is_aligned_for_every_library() -> None:
    for rows in (1, 7, 1_000, 300_000):
        X: Any = choose("cpu").empty_matrix(rows, 5)
        assert X.ctypes.data % ALIGNMENT == 0
        assert X.flags.f_contiguous
        assert X.shape == (rows, 5)


def test_memory_is_released_with_the_tensor() -> None:
    X: Any = choose("cpu").empty_matrix(1_000, 7)
    memory = weakref.ref(X.base)
    tensor = to_torch(X)
    part = tensor[3:]
    del X, tensor
    gc.collect()
    assert memory() is not None
    del part
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("library", ["torch", "numpy"])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_copy_is_one_copy(library: str, turn: int) -> None:
    X = choose("cpu").empty_matrix(100_000, 5)[::turn]
    hand_over(X[:5], library, copy=True)  # what is imported is not counted
    tracemalloc.start()
    try:
        hand_over(X, library, copy=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert X.nbytes <= peak < 1.1 * X.nbytes


def test_any_librarys_array_is_taken_by_dlpack() -> None:
    X = np.arange(6.0).reshape(2, 3)
    for foreign in (Foreign(X), array_api_strict.asarray(X)):
        tensor = to_torch(foreign)
        assert tensor.data_ptr() == from_dlpack(foreign).ctypes.data
        np.testing.assert_array_equal(tensor.numpy(), X)


def test_the_supported_libraries() -> None:
    assert list(LIBRARIES) == ["numpy", "torch", "jax", "tensorflow"]


def test_a_receipt_reads_as_a_line() -> None:
    receipt = hand_over(np.asfortranarray(np.ones((3, 2), ">f4")), "torch", copy=True)[1]
    assert str(receipt) == (
        f"torch: float32 (3, 2) at {receipt.pointer:#x} on cpu, strides (4, 12), 24 bytes, copied "
        "(it has non-native byte order (>f4))"
    )


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Draw an array of any dtype, with any strides that slices, transpositions and byte order make."""
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    dtype = np.dtype(draw(st.sampled_from(["?", "i1", "u2", ">i4", "f4", ">f8", "f2", "c8", "u8"])))
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = draw(st.tuples(*[st.sampled_from([1, 2, -1, -2]) for _ in range(array.ndim)]))
    index: tuple[Any, ...] = (*(slice(None, None, step) for step in steps), ...)
    array = array[index]
    return read_only(array) if draw(st.booleans()) else array


@given(arrays(), st.booleans())
def test_a_tensor_is_the_array_or_a_refusal(array: np.ndarray, copy: bool) -> None:
    try:
        tensor, receipt = hand_over(array, "torch", copy)
    except GpupipeError as refusal:
        assert not copy
        assert "copy=True" in str(refusal)
        assert not array.flags.writeable or not array.dtype.isnative or any(step < 0 for step in array.strides)
        return
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert receipt.copied is copy
    if array.size:
        assert (tensor.data_ptr() == array.ctypes.data) is not copy
    if array.size and not copy:
        assert receipt.strides == array.strides
