"""A readable row-by-row interpreter, and random programs to compare all interpreters."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import (
    BLOCKS,
    IS_FINITE,
    NAT,
    OPERANDS,
    PART_SIZES,
    PICKS_ZONE,
    READS_ZONE,
    CalendarPart,
    Opcode,
)
from gpupipe_kernels.program.program import Program

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAN = math.nan
I8, I16, I32, F32, F64, I64 = range(len(BLOCKS))
HOUR = 3_600_000_000
DAY = 24 * HOUR
TWO_PI = Fraction(6_283_185_307_179_586_476_925_286_766_559_005_768_394, 10**39)


def single(x: float) -> float:
    """Return `x` rounded to float32."""
    return ctypes.c_float(x).value


def naive(program: Program, blocks: Mapping[str, np.ndarray], n: int, fold: np.ndarray | None = None) -> np.ndarray:
    """Return the matrix of a program: one instruction for one row at a time, rounded to float32 after each."""
    out = np.full((n, program.n_columns), NAN, np.float32)
    for i in range(n):
        acc, index = NAN, 0
        stack: list[float] = []
        for op, dst, block, row, arg, param, lut, size in program.instructions.tolist():
            p = [*program.params[param : param + 2].tolist(), 0.0, 0.0]
            x: Any = blocks[BLOCKS[block]][row, i].item() if block >= 0 else None
            table = program.luts[lut : lut + size].tolist()
            if (Opcode(op) is Opcode.INDEX_BIN and block == F64) or op in READS_ZONE:
                table = program.params[param : param + size].tolist()
            if op in PICKS_ZONE:
                table = table[int(table[index]) : int(table[index + 1])]
                x = x if table else NAT
            match Opcode(op):
                case Opcode.STORE:
                    stack.append(acc)
                case Opcode.INDEX:
                    index = x
                case Opcode.INDEX_PAIR:
                    index = index * arg + x
                case Opcode.INDEX_FOLD:
                    index += 0 if fold is None else int(fold[i]) * arg
                case Opcode.INDEX_PART:
                    index = size if x == NAT else calendar_part(x, CalendarPart(arg))
                case Opcode.INDEX_LOCAL_PART | Opcode.INDEX_ZONED_PART:
                    index = 0 if x == NAT else 1 + calendar_part(local(x, table), CalendarPart(arg))
                case Opcode.LOCAL_PART | Opcode.ZONED_PART:
                    acc = NAN if x == NAT else calendar_part(local(x, table), CalendarPart(arg))
                case Opcode.INDEX_BIN:
                    index = 0 if x != x else arg + sum(edge <= x for edge in table)
                case Opcode.TAKE:
                    acc = table[index]
                case Opcode.BETWEEN:
                    y = blocks[BLOCKS[block]][arg, i].item()
                    acc = NAN if NAT in (x, y) else single((float(x) - float(y)) * p[0])
                case _ if op in OPERANDS:
                    taken, stack = stack[1 - OPERANDS[op] :], stack[: 1 - OPERANDS[op]]
                    acc = single(combined(Opcode(op), [*taken, acc], p))
                case Opcode.LOAD:
                    acc = single(x - (single(p[0]) if block == F32 else p[0]))
                case _:
                    acc = single(value_of(Opcode(op), x, arg, p, acc))
            if op in IS_FINITE and not math.isfinite(acc):
                acc = NAN
            if dst >= 0:
                out[i, dst] = acc
    return out


def local(time: int, zone: list[float]) -> int:
    """Return a time in a time zone, by counting the transitions up to it."""
    n = len(zone) // 2
    return time + int(zone[n + sum(edge <= time for edge in zone[:n])])


def value_of(op: Opcode, x: Any, arg: int, p: list[float], acc: float) -> float:
    """Return the result of an instruction with one operand."""
    match op:
        case Opcode.EQUAL:
            return float(x == arg)
        case Opcode.IS_NULL:
            return float(x == NAT if isinstance(x, int) else x != x)
        case Opcode.ELAPSED:
            return NAN if x == NAT else (float(x) - p[0]) * p[1]
        case Opcode.PART:
            return NAN if x == NAT else calendar_part(x, CalendarPart(arg))
        case Opcode.FILL:
            return p[0] if acc != acc else acc
        case Opcode.CLIP:
            low, high = single(p[0]), single(p[1])
            return NAN if NAN in (acc, low, high) or acc != acc else min(max(acc, low), high)
        case Opcode.SCALE:
            product = single(acc * single(p[0]))
            return product + single(p[1]) if p[1] else product
        case Opcode.LOG1P:
            return NAN if acc < -1 or acc != acc else -math.inf if acc == -1 else math.log1p(acc)
        case Opcode.SINE:
            return exact_sine(acc, p[0], p[1])
        case Opcode.YEO_JOHNSON:
            return power(acc, p[0])
    raise AssertionError(op)


def exact_sine(x: float, factor: float, offset: float) -> float:
    """Return ``sin(x * factor + offset)``, with whole turns removed by rational arithmetic; NaN for too many."""
    if not abs(single(x * single(factor / (2 * math.pi)))) <= 2**23:
        return NAN
    return math.sin(float(Fraction(x) * Fraction(factor) % TWO_PI) + offset)


def combined(op: Opcode, r: list[float], p: list[float]) -> float:
    """Return the result of an instruction with several operands."""
    if any(v != v for v in r):
        return NAN
    match op:
        case Opcode.ADD:
            return r[0] + r[1]
        case Opcode.SUBTRACT:
            return r[0] - r[1]
        case Opcode.MULTIPLY:
            return r[0] * r[1]
        case Opcode.DIVIDE:
            return NAN if r[1] == 0 else r[0] / r[1]
    longitudes = (r[1], r[3], r[3] - r[1])
    if max(abs(r[0] + p[1]), abs(r[2] + p[1])) > 90 or max(map(abs, longitudes)) > 720:
        return NAN
    phi1, phi2 = math.radians(r[0] + p[1]), math.radians(r[2] + p[1])
    turn = math.radians(r[3] - r[1])
    if op is Opcode.HAVERSINE:
        h = math.sin((phi2 - phi1) / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(turn / 2) ** 2
        return p[0] * 2 * math.asin(math.sqrt(min(h, 1.0)))
    east = math.sin(turn) * math.cos(phi2)
    north = math.cos(phi1) * math.sin(phi2) - math.sin(phi1) * math.cos(phi2) * math.cos(turn)
    return math.degrees(math.atan2(east, north)) % 360.0


def power(x: float, exponent: float) -> float:
    """Return the Yeo-Johnson power transformation, case by case as in its definition."""
    if x != x:
        return NAN
    sign, rest = (1, exponent) if x >= 0 else (-1, 2 - exponent)
    logarithm = math.log1p(abs(x))
    if rest == 0:
        return sign * logarithm
    try:
        return sign * math.expm1(rest * logarithm) / rest
    except OverflowError:
        return sign * math.inf


def calendar_part(x: int, which: CalendarPart) -> int:
    """Return a calendar part by the standard library, for years 1 to 9999."""
    t = EPOCH + timedelta(microseconds=x)
    match which:
        case (
            CalendarPart.YEAR
            | CalendarPart.MONTH
            | CalendarPart.DAY
            | CalendarPart.HOUR
            | CalendarPart.MINUTE
            | CalendarPart.SECOND
        ):
            return int(getattr(t, which.name.lower()))
        case CalendarPart.QUARTER:
            return (t.month + 2) // 3
        case CalendarPart.DAY_OF_YEAR:
            return t.timetuple().tm_yday
        case CalendarPart.WEEKDAY:
            return t.weekday()
        case CalendarPart.HOUR_OF_WEEK:
            return 24 * t.weekday() + t.hour
        case CalendarPart.IS_WEEKEND:
            return int(t.weekday() >= 5)
        case CalendarPart.IS_MONTH_START:
            return int(t.day == 1)
        case CalendarPart.IS_MONTH_END:
            return int((t + timedelta(days=1)).day == 1)


@dataclass
class Writer:
    """Builder of a program, instruction by instruction."""

    instructions: list[list[int]] = field(default_factory=list)
    params: list[float] = field(default_factory=list)
    luts: list[float] = field(default_factory=list)
    width: int = 0

    def put(
        self,
        op: Opcode,
        dst: int = 0,
        source: tuple[int, int] = (-1, -1),
        arg: int = 0,
        params: tuple[float, ...] = (),
        table: Any = None,
        size: int = 0,
    ) -> None:
        """Write an instruction; a new column makes the matrix wider."""
        length = size if table is None else len(table)
        if (op is Opcode.INDEX_BIN and source[0] == F64) or op in READS_ZONE:
            params, table = tuple(table), None
        self.instructions.append([int(op), dst, *source, arg, len(self.params), len(self.luts), length])
        self.params += params
        self.luts += [] if table is None else list(table)
        self.width = max(self.width, dst + 1)

    def program(self) -> Program:
        """Return what has been written."""
        rows = np.array(self.instructions, np.int32).reshape(-1, 8)
        return Program(rows, np.array(self.params, np.float64), np.array(self.luts, np.float32), self.width)


SIZES = {(I8, 0): 6, (I8, 1): 3, (I16, 0): 300, (I32, 0): 40_000}
"""The code columns of `random_table`, and how many codes each has."""

N_FOLDS = 3
CODES, NUMBERS, TIMES = list(SIZES), [(F32, 0), (F32, 1), (F64, 0), (F64, 1)], [(I64, 0), (I64, 1)]
EXTREMES = [NAN, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-42, -1e-42]


def random_table(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return blocks of n rows, including nulls and extremes, and folds."""
    blocks: dict[str, np.ndarray] = {
        BLOCKS[block]: np.stack([rng.integers(0, SIZES[c], n) for c in CODES if c[0] == block]).astype(BLOCKS[block])
        for block in (I8, I16, I32)
    }
    for name in ("float32", "float64"):
        numbers = rng.normal(size=(2, n)) * 10.0 ** rng.integers(-3, 4, (2, n))
        blocks[name] = np.where(rng.random((2, n)) < 0.2, rng.choice(EXTREMES, (2, n)), numbers).astype(name)
    times = rng.integers(-100 * 365 * DAY, 100 * 365 * DAY, (2, n))
    blocks["int64"] = np.where(rng.random((2, n)) < 0.1, NAT, times)
    return blocks, rng.integers(0, N_FOLDS, n).astype(np.int8)


def random_program(rng: np.random.Generator, n_columns: int) -> tuple[Program, np.ndarray]:
    """Return a valid program for `random_table`, and flags of its exact columns.

    Approximate functions come last, so that no other instruction amplifies their error.
    """
    writer, exact = Writer(), []
    for dst in range(n_columns):
        kind = rng.integers(0, 10)
        exact.append(kind < 8)
        if kind < 2:
            number(writer, rng, dst)
        elif kind < 3:
            writer.put(Opcode.EQUAL, dst, pick(rng, CODES), arg=int(rng.integers(-1, 6)))
        elif kind < 4:
            writer.put(Opcode.IS_NULL, dst, pick(rng, NUMBERS + TIMES))
        elif kind < 5:
            time(writer, rng, dst)
        elif kind < 7:
            lookup(writer, rng, dst)
        elif kind < 8:
            combination(writer, rng, dst)
        elif kind < 9:
            distance(writer, rng, dst)
        else:
            curve(writer, rng, dst)
    return writer.program(), np.array(exact)


def pick(rng: np.random.Generator, choices: list[tuple[int, int]]) -> tuple[int, int]:
    return choices[rng.integers(len(choices))]


def number(writer: Writer, rng: np.random.Generator, dst: int) -> None:
    writer.put(Opcode.LOAD, dst, pick(rng, NUMBERS), params=(float(rng.choice([0.0, 2.5, -87.63])),))
    for _ in range(rng.integers(0, 4)):
        op = rng.choice([Opcode.FILL, Opcode.CLIP, Opcode.SCALE])
        params = {
            Opcode.FILL: (1.25,),
            Opcode.CLIP: (float(rng.choice([-3.5, 0.0])), 40.0),
            Opcode.SCALE: (float(rng.choice([-0.1, 3.0])), 0.0),
        }[op]
        writer.put(Opcode(op), dst, params=params)


def time(writer: Writer, rng: np.random.Generator, dst: int) -> None:
    source = pick(rng, TIMES)
    kind = rng.integers(0, 5)
    if kind == 4:
        zones = pick_zone(writer, rng)
        writer.put(Opcode.ZONED_PART, dst, source, arg=int(rng.integers(0, len(CalendarPart))), table=zones)
    elif kind == 0:
        writer.put(Opcode.ELAPSED, dst, source, params=(1e14, 1 / HOUR))
    elif kind == 1:
        writer.put(Opcode.BETWEEN, dst, source, arg=int(rng.integers(0, 2)), params=(1 / DAY,))
    elif kind == 2:
        writer.put(Opcode.LOCAL_PART, dst, source, arg=int(rng.integers(0, len(CalendarPart))), table=time_zone(rng))
    else:
        writer.put(Opcode.PART, dst, source, arg=int(rng.integers(0, len(CalendarPart))))


def time_zone(rng: np.random.Generator) -> np.ndarray:
    """Return up to 9 transitions in the range of `random_table`, and offsets to the second, of up to 15 hours."""
    n = int(rng.integers(0, 10))
    transitions = np.sort(rng.choice(200 * 365, n, replace=False) - 100 * 365) * float(DAY)
    return np.append(transitions, rng.integers(-54_000, 54_001, n + 1) * 1e6)


def pick_zone(writer: Writer, rng: np.random.Generator) -> list[float]:
    """Write the index of a time zone; return the table of the zones, a third of which are unknown."""
    source = pick(rng, CODES[:2])
    writer.put(Opcode.INDEX, -1, source)
    zones = [time_zone(rng) if rng.random() < 0.7 else np.empty(0) for _ in range(SIZES[source])]
    bounds = np.cumsum([len(zones) + 1, *map(len, zones)])
    return [*bounds.astype(float).tolist(), *np.concatenate(zones).tolist()]


def lookup(writer: Writer, rng: np.random.Generator, dst: int) -> None:
    kind = rng.integers(0, 5)
    if kind == 0:
        source = pick(rng, CODES[:3])
        writer.put(Opcode.INDEX, -1, source)
        size = SIZES[source]
        if rng.random() < 0.5:
            writer.put(Opcode.INDEX_PAIR, -1, CODES[1], arg=SIZES[CODES[1]])
            size *= SIZES[CODES[1]]
        if rng.random() < 0.5:
            writer.put(Opcode.INDEX_FOLD, -1, arg=size)
            size *= N_FOLDS
    elif kind == 1:
        part = list(PART_SIZES)[rng.integers(len(PART_SIZES))]
        size = PART_SIZES[part] + 1
        writer.put(Opcode.INDEX_PART, -1, pick(rng, TIMES), arg=int(part), size=size - 1)
    elif kind == 2:
        part = list(PART_SIZES)[rng.integers(len(PART_SIZES))]
        size = PART_SIZES[part] + 1
        writer.put(Opcode.INDEX_LOCAL_PART, -1, pick(rng, TIMES), arg=int(part), table=time_zone(rng))
    elif kind == 3:
        part = list(PART_SIZES)[rng.integers(len(PART_SIZES))]
        size = PART_SIZES[part] + 1
        writer.put(Opcode.INDEX_ZONED_PART, -1, pick(rng, TIMES), arg=int(part), table=pick_zone(writer, rng))
    else:
        edges = np.sort(rng.normal(size=rng.integers(0, 9)) * 10)
        lowest = int(rng.integers(0, 4))
        size = lowest + len(edges) + 1
        writer.put(Opcode.INDEX_BIN, -1, pick(rng, NUMBERS), arg=lowest, table=edges)
    writer.put(Opcode.TAKE, dst, table=rng.normal(size=size))


def combination(writer: Writer, rng: np.random.Generator, dst: int, register: int = 0) -> None:
    """Write an operation of two operands, each of which may be an operation too."""
    for operand in range(2):
        if register < 3 and rng.random() < 0.3:
            combination(writer, rng, dst, register + operand)
        else:
            number(writer, rng, dst)
        if operand == 0:
            writer.put(Opcode.STORE, dst, arg=register)
    writer.put(Opcode(rng.choice([Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.DIVIDE])), dst, arg=register)


def distance(writer: Writer, rng: np.random.Generator, dst: int) -> None:
    for i, limit in enumerate((40.0, 180.0, 40.0, 180.0)):
        writer.put(Opcode.LOAD, dst, pick(rng, NUMBERS), params=(0.0,))
        if rng.random() < 0.8:
            writer.put(Opcode.CLIP, dst, params=(-limit, limit))
        if i < 3:
            writer.put(Opcode.STORE, dst, arg=i)
    writer.put(Opcode.HAVERSINE, dst, arg=0, params=(1.0, 50.0))


def curve(writer: Writer, rng: np.random.Generator, dst: int) -> None:
    number(writer, rng, dst)
    op = Opcode(rng.choice([Opcode.LOG1P, Opcode.SINE, Opcode.YEO_JOHNSON]))
    if op is Opcode.YEO_JOHNSON:  # the error grows with the logarithm
        writer.put(Opcode.CLIP, dst, params=(-1e4, 1e4))
    exponent = float(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 2.25]))
    factor = 2 * math.pi / float(rng.choice([1e-35, 1e-4, 7.0, 365.25, 1e38]))
    writer.put(op, dst, params={Opcode.SINE: (factor, 1.5), Opcode.YEO_JOHNSON: (exponent,)}.get(op, ()))


def assert_same(got: np.ndarray, expected: np.ndarray, exact: np.ndarray) -> None:
    """Compare matrices: exact columns bit by bit, including the sign of zero."""
    np.testing.assert_array_equal(got[:, exact], expected[:, exact])
    zero = exact & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
    np.testing.assert_allclose(got[:, ~exact], expected[:, ~exact], rtol=3e-6, atol=2e-6)
