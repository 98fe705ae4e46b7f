"""JSON parser for untrusted files: limited size, finite numbers, distinct keys, valid Unicode."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from gpupipe.names import duplicates

BYTES_A_CONTAINER = 8  # an empty list takes 3 bytes in a file and 64 in memory: a file of empty lists is a bomb
SLACK = 1000
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # possessive: one pass, whatever the bytes


def parse_json(raw: bytes) -> Any:
    """Return the values of a JSON document.

    Raise ValueError if it is not UTF-8 or not JSON, is nested too deeply, or contains NaN, infinity, duplicate keys,
    unpaired surrogates, or almost only brackets.
    """
    most = SLACK + len(raw) // BYTES_A_CONTAINER
    if _count_brackets(raw) > most and _count_brackets(_TEXTS.sub(b"", raw)) > most:
        raise ValueError("too many containers for its size")
    try:
        values = json.loads(
            raw.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_single
        )
        if b"\\ud" in raw or b"\\uD" in raw:  # maybe an unpaired surrogate, which no file or console can show
            json.dumps(values, ensure_ascii=False).encode("utf-8")
        return values
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _count_brackets(raw: bytes) -> int:
    return raw.count(b"[") + raw.count(b"{")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} exceeds float64")
    return value


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = duplicates(key for key, _ in pairs)[0]
        raise ValueError(f"duplicate key {twice[:40]!r}")
    return found
