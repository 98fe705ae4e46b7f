"""Parsers and checks of untrusted files, applied before a library that believes what the files declare.

``json_documents``  JSON    ``archives``  zip and npz    ``ubjson``  XGBoost's binary JSON    ``protobuf``  the fields
of an ONNX file. They take bytes and raise ValueError; the caller knows the file. ``failures``  turns any exception of
a library into an error of gpupipe.
"""

from __future__ import annotations

from gpupipe.units import MIB

MOST_TIMES = 200  # a file may declare so many times its own size; ours stay below 50, a bomb has 1,000 and more
SLACK = MIB  # bytes on top, so that a small file of one repeated value is no bomb


def most_bytes(n_bytes: int) -> int:
    """Return up to how many bytes a file of `n_bytes` may unfold."""
    return MOST_TIMES * n_bytes + SLACK
