"""Reader of safetensors files without PyTorch: the file is untrusted, so every offset is checked before use.

The package safetensors reads them too, but is not installed where a model is only served.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.artifact.untrusted.shapes import check_shape

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
SIZE = range(1 << 40)
HEADER = {"__metadata__?": object, ...: {"dtype": {*DTYPES}, "shape": [SIZE], "data_offsets": [SIZE]}}


def read_tensors(data: bytes) -> dict[str, HostArray]:
    """Return the tensors of a file by name. Raise ValueError if it is malformed, or a value is not finite."""
    n_header = int.from_bytes(data[:8], "little")
    if len(data) < 8 or n_header > len(data) - 8:
        raise ValueError("its header is longer than the file")
    header, body = parse_json(data[8 : 8 + n_header]), data[8 + n_header :]
    check_shape(header, HEADER)
    return {name: _read_tensor(name, each, body) for name, each in header.items() if name != "__metadata__"}


def _read_tensor(name: str, entry: dict[str, list[int]], body: bytes) -> HostArray:
    dtype = DTYPES[str(entry["dtype"])]
    shape, offsets = entry["shape"], entry["data_offsets"]
    n_bytes = math.prod(shape) * dtype.itemsize
    if len(offsets) != 2 or offsets[1] > len(body) or offsets[1] - offsets[0] != n_bytes:
        raise ValueError(f"{name:.40}: expected {n_bytes:,} bytes inside the file; found offsets {offsets}")
    found = np.frombuffer(body[offsets[0] : offsets[1]], dtype).reshape(shape)
    if not np.isfinite(found).all():
        raise ValueError(f"{name:.40} has values that are not finite")
    return found
