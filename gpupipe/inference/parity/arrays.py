"""Arrays of a parity record, read without Arrow."""

from __future__ import annotations

from collections.abc import Mapping

from gpupipe.artifact import ArtifactReader
from gpupipe.model_parts.format_1 import is_format_1, read_parity_rows
from gpupipe.typing import Array

ARRAYS = "parity.npz"
DTYPES = {
    "row": "int64", "features": "float32", "predicted": "bool", "outputs": "float64", "label": "int32",
    "target": "float64", "numbers": "float64",
}  # fmt: skip
MATRICES = ("features", "outputs", "numbers")
OF_TARGETS = ("label", "target")  # with several targets, matrices


def read_parity_arrays(reader: ArtifactReader) -> Mapping[str, Array]:
    """Return the arrays of a record, by the names in `DTYPES`; format 1, which needs Arrow, has no ``numbers``.

    Raise KeyError or ValueError if they are malformed.
    """
    if is_format_1(reader):
        return read_parity_rows(reader)[2]
    arrays = reader.arrays(ARRAYS)
    n_rows = len(arrays["row"])
    for name, dtype in DTYPES.items():
        array, ndim = arrays[name], 1 + (name in MATRICES)
        is_shaped = array.ndim == ndim or (array.ndim == 2 and name in OF_TARGETS)
        if array.dtype != dtype or not is_shaped or len(array) != n_rows:
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name}: expected {dtype} with {ndim} dimensions and {n_rows} rows; found {found}")
    return arrays
