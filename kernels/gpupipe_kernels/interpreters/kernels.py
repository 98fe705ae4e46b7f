"""Kernel declarations of the instructions: each is a small program, run by the NumPy and the CUDA interpreter.

The references are independent implementations in float64 NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpupipe_kernels import reference
from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.device import arrays
from gpupipe_kernels.formulas.calendar import MICROSECONDS_A_DAY
from gpupipe_kernels.interpreters import assembly
from gpupipe_kernels.interpreters.cuda import interpreter as cuda_interpreter
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from gpupipe_kernels.program.opcodes import MAX_TURNS, NAT, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.typing import HostArray

RADIUS_KM = 6_371.0088


def _on_host(program: Callable[..., Program], block: HostArray, *scalars: Any) -> Any:
    """Return the column-major matrix that ``program(*scalars)`` computes; the column, if there is only one."""
    made = program(*scalars)
    out = np.empty((block.shape[1], made.n_columns), np.float32, order="F")
    numpy_interpreter.run(made, {block.dtype.name: block}, out)
    return out[:, 0] if made.n_columns == 1 else out


def _on_device(program: Callable[..., Program], block: Any, *scalars: Any) -> Any:
    """Return the same as a device array, from a device array."""
    made = program(*scalars)
    out = arrays.empty((block.shape[1], made.n_columns), np.float32, order="F")
    cuda_interpreter.run(made, {np.dtype(block.dtype).name: block}, out)
    return out[:, 0] if made.n_columns == 1 else out


def sample_numbers(rng: np.random.Generator, n: int, k: int = 1) -> HostArray:
    """Return numbers of many magnitudes, including nulls and zeros."""
    x = rng.normal(size=(k, n)) * 10.0 ** rng.integers(-6, 7, (k, n))
    return rng.permuted(np.where(rng.random((k, n)) < 0.1, rng.choice([np.nan, 0.0], (k, n)), x), axis=1)


def sample_points(rng: np.random.Generator, n: int, n_kinds: int = 4) -> tuple[HostArray, float]:
    """Return latitudes relative to an origin, and longitudes: neighbours, random pairs, and antipodes (kind 3)."""
    origin = 40.0
    lat1, lon1 = rng.uniform(-90, 90, n), rng.uniform(-180, 180, n)
    kind = rng.integers(0, n_kinds, n)
    near = rng.normal(size=(2, n)) * 10.0 ** rng.integers(-4, 1, n)
    lat2 = np.select([kind == 0, kind == 3], [lat1 + near[0], -lat1 + near[0]], rng.uniform(-90, 90, n))
    lon2 = np.select([kind == 0, kind == 3], [lon1 + near[1], lon1 + 180 + near[1]], rng.uniform(-180, 180, n))
    block = np.stack([lat1 - origin, lon1, lat2 - origin, lon2])
    block[:, rng.random(n) < 0.05] = np.nan
    return block.astype(np.float32), origin


def sample_times(rng: np.random.Generator, n: int, k: int) -> HostArray:
    """Return times from 313 BC to 11103, including nulls."""
    found = rng.integers(-(2**56), 2**58, (k, n))
    found[rng.random((k, n)) < 0.1] = NAT
    return found


def _arithmetic_in_float64(x: HostArray) -> Any:
    a, b = x.astype(np.float64)
    return reference.in_float32(np.stack([a + b, a - b, a * b, a / b], axis=1))


def _impute_in_float64(x: HostArray, fill: float, low: float, high: float, factor: float, offset: float) -> HostArray:
    null, wide = np.isnan(x[0]), x[0].astype(np.float64)
    return np.stack([null, np.clip(np.where(null, fill, wide), low, high) * factor + offset], axis=1)


def _calendar_of_numpy(time: HostArray) -> HostArray:
    """Return the parts by NumPy's calendar, at the equivalent time in 1970 to 2370: it repeats after 400 years."""
    cycle, moment = np.divmod(time[0], 146_097 * MICROSECONDS_A_DAY)
    t = moment.view("datetime64[us]")
    year, month, day, hour = (t.astype(f"datetime64[{unit}]") for unit in "YMDh")
    month_of_year, day_of_month = (
        (month - year).astype(np.int64),
        (day - month.astype("datetime64[D]")).astype(np.int64),
    )
    weekday = (day.astype(np.int64) + 3) % 7
    of_day = moment - day.astype("datetime64[us]").view(np.int64)
    parts = {
        CalendarPart.YEAR: year.astype(np.int64) + 1970 + 400 * cycle,
        CalendarPart.QUARTER: month_of_year // 3 + 1,
        CalendarPart.MONTH: month_of_year + 1,
        CalendarPart.DAY: day_of_month + 1,
        CalendarPart.DAY_OF_YEAR: (day - year.astype("datetime64[D]")).astype(np.int64) + 1,
        CalendarPart.WEEKDAY: weekday,
        CalendarPart.HOUR: of_day // 3_600_000_000,
        CalendarPart.MINUTE: of_day // 60_000_000 % 60,
        CalendarPart.SECOND: of_day // 1_000_000 % 60,
        CalendarPart.HOUR_OF_WEEK: (hour.astype(np.int64) + 72) % 168,
        CalendarPart.IS_WEEKEND: weekday >= 5,
        CalendarPart.IS_MONTH_START: day_of_month == 0,
        CalendarPart.IS_MONTH_END: (day + 1).astype("datetime64[M]") != month,
    }
    return np.where(time[0] == NAT, np.nan, np.stack([parts[part] for part in CalendarPart])).T


def _local_calendar_of_numpy(time: HostArray) -> HostArray:
    *transitions, before, between, after = assembly.local_parts().params.astype(np.int64).tolist()
    offset = np.select([time < transitions[0], time < transitions[1]], [before, between], after)
    parts = _calendar_of_numpy(np.where(time == NAT, NAT, time + offset))
    hour, day = parts[:, CalendarPart.HOUR], parts[:, CalendarPart.DAY]
    return np.stack([hour, day, np.where(np.isnan(hour), 0, hour + 1)], axis=1)


def _sample_transitions(rng: np.random.Generator, n: int) -> tuple[HostArray]:
    near = rng.choice(assembly.local_parts().params[:2].astype(np.int64), n) + rng.integers(-2, 3, n)
    return (np.where(rng.random(n) < 0.5, near, sample_times(rng, n, 1)),)


def _elapsed_in_python(time: HostArray, origin: float, unit: float) -> HostArray:
    a, b = time.astype(object)  # whole numbers of any length
    since = np.where(a == NAT, np.nan, (a - int(origin)) / unit)
    between = np.where((a == NAT) | (b == NAT), np.nan, (a - b) / unit)
    return np.stack([since, between], axis=1).astype(np.float64)


def _lookup_in_numpy(codes: HostArray, n_codes: int) -> HostArray:
    return np.stack([codes[0] == 1, (codes[0].astype(np.int64) * n_codes + codes[1]) * 0.5], axis=1)


def _scalars(*names: str) -> tuple[Argument, ...]:
    return tuple(Argument(name, "float64", ()) for name in names)


def _of(dtype: str, n_columns: int, **limits: float) -> Argument:
    null = {"int64": NAT, "int16": 0}.get(dtype, np.nan)
    return Argument("x", dtype, (str(n_columns), "rows"), null=null, **limits)


COLUMN = (Argument("y", "float32"),)
POINTS = (_of("float32", 4), *_scalars("origin"))  # (lat1, lon1, lat2, lon2)


def _matrix(n_columns: int) -> tuple[Argument, ...]:
    return (Argument("y", "float32", ("rows", str(n_columns))),)


def _interpreted(program: Callable[..., Program]) -> dict[str, Any]:
    """Return the implementations in a declaration: the interpreters run ``program(*scalars)`` over the first input."""
    device = (cuda_interpreter.LOOPS["columns", True],)
    return {"cpu": partial(_on_host, program), "gpu": partial(_on_device, program), "device": device}


KERNELS = (
    KernelDeclaration(
        "arithmetic", "sum, difference, product and quotient of two numbers", (_of("float32", 2),), _matrix(4),
        "null if either input is null or the result is not finite", 0.0, 0.0,
        _arithmetic_in_float64,
        sample=lambda rng, n: (sample_numbers(rng, n, 2).astype(np.float32),),
        **_interpreted(assembly.arithmetic),
    ),
    KernelDeclaration(
        "bins", "bin number, from 1", (_of("float32", 1), *_scalars("e0", "e1", "e2")), COLUMN,
        "bin 0", 0.0, 0.0,
        lambda x, *edges: np.where(np.isnan(x[0]), 0, 1 + np.digitize(x[0], edges)),
        sample=lambda rng, n: (sample_numbers(rng, n).astype(np.float32), -1.0, 0.0, 1.0),
        **_interpreted(assembly.bins),
    ),
    KernelDeclaration(
        "calendar_parts", "every calendar part of a time, in the order of CalendarPart",
        (_of("int64", 1),), _matrix(len(CalendarPart)),
        "null", 0.0, 0.0,
        _calendar_of_numpy,
        sample=lambda rng, n: (sample_times(rng, n, 1),),
        **_interpreted(assembly.calendar_parts),
    ),
    KernelDeclaration(
        "local_parts", "hour, day and index of the hour of a time in a time zone with two transitions",
        (_of("int64", 1),), _matrix(3),
        "null; index 0", 0.0, 0.0,
        _local_calendar_of_numpy,
        sample=_sample_transitions,
        **_interpreted(assembly.local_parts),
    ),
    KernelDeclaration(
        "elapsed", "time since an origin, and between two times; milliseconds are exact up to 285 years",
        (_of("int64", 2), *_scalars("origin", "unit")), _matrix(2),
        "null", 1.2e-7, 2048e-6,
        _elapsed_in_python,
        sample=lambda rng, n: (sample_times(rng, n, 2), 1.6e15, 1e6),
        **_interpreted(assembly.elapsed),
    ),
    KernelDeclaration(
        "impute", "null flag of a number, and the number filled, clipped and scaled",
        (_of("float32", 1), *_scalars("fill", "low", "high", "factor", "offset")), _matrix(2),
        "filled", 2e-7, 5e-7,
        _impute_in_float64,
        sample=lambda rng, n: (sample_numbers(rng, n).astype(np.float32), 0.5, -8.0, 8.0, 0.3, 0.1),
        **_interpreted(assembly.impute),
    ),
    KernelDeclaration(
        "log1p", "log(1 + x)", (_of("float32", 1),), COLUMN, "null for null and for x <= -1", 3e-7, 1e-44,
        lambda x: reference.in_float32(np.log1p(x[0].astype(np.float64))),
        sample=lambda rng, n: (sample_numbers(rng, n).astype(np.float32),),
        **_interpreted(partial(assembly.of_number, Opcode.LOG1P)),
    ),
    KernelDeclaration(
        "lookup", "flag of code 1, and the table entry of a pair of codes",
        (_of("int16", 2, least=0, greatest=6), Argument("n_codes", "int64", ())), _matrix(2),
        "an ordinary code", 0.0, 0.0,
        _lookup_in_numpy,
        sample=lambda rng, n: (rng.integers(0, 7, (2, n)).astype(np.int16), 7),
        **_interpreted(assembly.lookup),
    ),
    KernelDeclaration(
        "haversine", f"distance in km (radius {RADIUS_KM}) between (x[0], x[1]) and (x[2], x[3]), in degrees; "
        "latitudes relative to an origin", POINTS, COLUMN, "null if any input is null or not in degrees",
        1e-6, 1e-6 * RADIUS_KM,
        lambda x, origin: RADIUS_KM * reference.central_angle(*reference.degrees(x[0], x[1], x[2], x[3], origin)),
        sample=sample_points,
        **_interpreted(partial(assembly.of_points, Opcode.HAVERSINE, RADIUS_KM)),
    ),
    KernelDeclaration(
        # The course is ill-conditioned for points that are nearly equal or nearly antipodal, so no tolerance holds.
        "bearing", "initial course between such points in degrees, 0 to 360; except antipodes",
        (Argument("x", "float32", ("4", "rows")), *_scalars("origin")), COLUMN, "null if any input is null", 0.0, 1e-2,
        lambda x, origin: reference.bearing(*reference.degrees(x[0], x[1], x[2], x[3], origin)),
        sample=lambda rng, n: sample_points(rng, n, n_kinds=3),
        **_interpreted(partial(assembly.of_points, Opcode.BEARING, 1.0)),
    ),
    KernelDeclaration(
        "sine", "sin(x * factor + offset)",
        (_of("float32", 1), *_scalars("factor", "offset")), COLUMN, f"null, as are more than {MAX_TURNS:,.0f} turns",
        0.0, 1e-6, lambda x, factor, offset: reference.sine(x[0], factor, offset),
        sample=lambda rng, n: (sample_numbers(rng, n).astype(np.float32), float(rng.uniform(0, 2)), 0.7),
        **_interpreted(partial(assembly.of_number, Opcode.SINE)),
    ),
    KernelDeclaration(
        "standardize", "(x - mean) * scale, subtracted in float64", (_of("float64", 1), *_scalars("mean", "scale")),
        COLUMN, "null", 2e-7, 1e-44,
        lambda x, mean, scale: reference.in_float32((x[0] - mean) * scale),
        sample=lambda rng, n: (1e6 + sample_numbers(rng, n), 1e6, 0.3),
        **_interpreted(assembly.standardize),
    ),
    KernelDeclaration(
        "yeo_johnson", "Yeo-Johnson power transformation",
        (_of("float32", 1), *_scalars("exponent")), COLUMN, "null", 1e-5, 1e-44,
        lambda x, exponent: reference.in_float32(reference.yeo_johnson(x[0].astype(np.float64), exponent)),
        sample=lambda rng, n: (
            sample_numbers(rng, n).astype(np.float32), float(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])),
        ),
        **_interpreted(partial(assembly.of_number, Opcode.YEO_JOHNSON)),
    ),
)  # fmt: skip
