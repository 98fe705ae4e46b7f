"""Device loops of the formulas over queries and events; the arguments are those of the formulas."""

from __future__ import annotations

from typing import Any

from gpupipe_kernels.device.parameters import F32, F64, I32, I64, U8
from gpupipe_kernels.keyed.formulas import (
    before_at,
    count_at,
    decayed_at,
    extreme_at,
    gap_at,
    moment_at,
    nunique_at,
    pick_at,
    session_at,
    since_at,
    span_at,
)
from gpupipe_kernels.launch import DeviceLoop, device_walk_of

QUERY = (I32,) * 4


def _loop(name: str, formula: Any, *arguments: str, rows: str = "low") -> DeviceLoop:
    return DeviceLoop(device_walk_of(formula, name, rows, __name__), *arguments)


count = _loop("keyed_count", count_at, *QUERY, F32)
moment = _loop("keyed_moment", moment_at, *QUERY, U8, F64, F64, F64, F64, I32, I32, "int64", F32)
extreme = _loop("keyed_extreme", extreme_at, *QUERY, F32, "float64", F32)
pick = _loop("keyed_pick", pick_at, *QUERY, F64, "int64", "float64", F32)
pick_codes = _loop("keyed_pick_codes", pick_at, *QUERY, I32, "int64", "int64", I32)
since = _loop("keyed_since", since_at, *QUERY, I64, I64, "int64", "float64", F32)
nunique = _loop("keyed_nunique", nunique_at, *QUERY, I32, F32)
decayed = _loop("keyed_decayed", decayed_at, *QUERY, I64, I64, F64, "float64", I32, I32, F32)
session = _loop("keyed_session", session_at, *QUERY, I64, I64, I32, I32, "float64", F32, F32, F32)
before = _loop("keyed_before", before_at, I32, I64, I32, I64, I32, I32, rows="key")
span = _loop("keyed_span", span_at, I32, I32, I64, I64, "int64", I32)
gaps = _loop("keyed_gaps", gap_at, U8, I64, "float64", F64, rows="time")
