"""JSON files of the run directory: keys in insertion order, NaN and infinity as null, NumPy values converted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NUMBERS = re.compile(r"\[\n[^\[\]{}\"]*\]")  # a newline is never part of a text


def plain(value: Any) -> Any:
    """Return `value` converted to JSON types: dict, list, str, int, float, bool, None.

    NaN and infinities become None, because JSON has neither. NumPy scalars and arrays are converted with ``tolist``,
    other types (paths, times) with ``str``.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON text, with `indent` as in `json.dumps`."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as indented UTF-8 JSON that ends with a newline; a list of numbers is one line."""
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[0][1:-1].split())}]", dumps(value, indent=2))
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
