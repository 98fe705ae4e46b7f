"""Hypothesis strategies for tables with every kind of column and extreme values; drawn: columns, row count, seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

Array = Any
Maker = Callable[[np.random.Generator, int], pa.Array]

DAY_US = 86_400_000_000
YEAR_1_US, YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999
ODD_TEXTS = ("", " ", "a|b", "a\\|b", "\\", "(null)", "(rare)", "=", "null", "nan", "日本語", "é", "e\u0301", "🦊",
             "a\nb", "\t", '"', "'", "İ", "ß", "0", "-1.0", "\u200b", "true")  # fmt: skip


def _numbers(values: Array, rng: np.random.Generator | None = None, kind: Any = None) -> pa.Array:
    """Return numbers, one in seven of them null where a generator is given."""
    mask = None if rng is None else rng.random(len(values)) < 1 / 7
    return pa.array(values, kind, mask=mask)


def _texts(values: Array, rng: np.random.Generator | None = None) -> pa.Array:
    return _numbers(np.asarray(values, object), rng, pa.string())


def _times(values: Array, rng: np.random.Generator | None = None) -> pa.Array:
    return _numbers(np.asarray(values, np.int64), rng, pa.int64()).cast(pa.timestamp("us"))


NUMERIC: dict[str, Maker] = {
    "normal": lambda rng, n: _numbers(rng.normal(size=n), rng),
    "float32": lambda rng, n: _numbers(rng.normal(size=n).astype(np.float32), rng),
    "far": lambda rng, n: _numbers(rng.normal(1e9, 1, n)),
    "wide": lambda rng, n: _numbers(rng.normal(size=n) * np.exp(9 * rng.normal(size=n)), rng),
    "huge": lambda rng, n: _numbers(rng.choice([1e30, -3e37, 4.2e37, 4.3e37, 1e39, 1.7e308, 1.0], n), rng),
    "tiny": lambda rng, n: _numbers(rng.choice([5e-324, 1e-300, -1e-45, 1e-38, 1.2e-38, 0.0], n), rng),
    "edge": lambda rng, n: _numbers(rng.choice([1.0, 1.0 + 2.0**-40, 1.0 - 2.0**-52], n)),
    "zeros": lambda rng, n: _numbers(rng.choice([0.0, -0.0], n), rng),
    "count": lambda rng, n: _numbers(rng.poisson(3, n), rng, pa.int64()),
    "int8": lambda rng, n: _numbers(rng.integers(-128, 128, n).astype(np.int8), rng),
    "long": lambda rng, n: _numbers(rng.integers(-(2**63), 2**63 - 1, n), rng, pa.int64()),
    "unsigned": lambda rng, n: _numbers(rng.integers(0, 2**64 - 1, n, np.uint64), rng),
    "skewed": lambda rng, n: _numbers(rng.lognormal(0, 2, n), rng),
    "ties": lambda rng, n: _numbers(rng.integers(0, 3, n) / 4, rng),
    "infinite": lambda rng, n: _numbers(rng.choice([np.inf, -np.inf, np.nan, 1.0, 2.0], n), rng),
    "decimal": lambda rng, n: _numbers(np.round(rng.normal(size=n), 2), rng).cast(pa.decimal128(20, 2), safe=False),
}
DEGENERATE: dict[str, Maker] = {
    "constant": lambda rng, n: _numbers(np.full(n, 0.1)),
    "constant_large": lambda rng, n: _numbers(np.full(n, 16_777_217), None, pa.int64()),
    "constant_with_nulls": lambda rng, n: _numbers(np.full(n, 1e10 / 3), rng),
    "all_null": lambda rng, n: pa.nulls(n, pa.float64()),
    "all_nan": lambda rng, n: _numbers(np.full(n, np.nan)),
    "all_infinite": lambda rng, n: _numbers(np.full(n, np.inf)),
    "both_infinities": lambda rng, n: _numbers(rng.choice([np.inf, -np.inf], n)),
    "too_large": lambda rng, n: _numbers(rng.choice([1e38, -1e39, 1e308], n)),
    "one_value": lambda rng, n: _numbers(np.full(n, 7.5), None).filter(np.arange(n) == 0).take(
        pa.array([0] + [None] * (n - 1), pa.int64())),
}  # fmt: skip
CATEGORICAL: dict[str, Maker] = {
    "plan": lambda rng, n: _texts(rng.choice(["basic", "plus", "pro"], n, p=[0.7, 0.2, 0.1]), rng),
    "city": lambda rng, n: _texts([f"city {i}" for i in rng.integers(0, 40, n)], rng),
    "own": lambda rng, n: _texts([f"id {i:05d}" for i in rng.permutation(n)]),
    "odd": lambda rng, n: _texts(rng.choice(np.array(ODD_TEXTS, object), n), rng),
    "one_level": lambda rng, n: _texts(["same"] * n),
    "no_level": lambda rng, n: pa.nulls(n, pa.string()),
}
BOOLEAN: dict[str, Maker] = {
    "flag": lambda rng, n: _numbers(rng.random(n) < 0.3, rng),
    "always": lambda rng, n: _numbers(np.ones(n, bool)),
    "never_known": lambda rng, n: pa.nulls(n, pa.bool_()),
}
DATETIME: dict[str, Maker] = {
    "hours": lambda rng, n: _times(1_577_836_800_000_000 + rng.integers(0, 900 * 24, n) * (DAY_US // 24), rng),
    "days": lambda rng, n: _times(rng.integers(-30_000, 30_000, n) * DAY_US, rng),
    "ends": lambda rng, n: _times(rng.choice([YEAR_1_US, YEAR_9999_US, -1, 0, 1, 951_782_400_000_000], n), rng),
    "one_time": lambda rng, n: _times(np.full(n, 1_600_000_000_000_001)),
    "no_time": lambda rng, n: pa.nulls(n, pa.timestamp("us")),
}
TEXT: dict[str, Maker] = {
    "note": lambda rng, n: _texts(
        [" ".join(rng.choice(np.array(ODD_TEXTS, object), 3)) + f" {i}" for i in range(n)], rng
    ),
    "silence": lambda rng, n: pa.nulls(n, pa.string()),
}
LIST: dict[str, Maker] = {
    "tags": lambda rng, n: pa.array(
        [
            None if k > 4 else rng.choice(np.array([*ODD_TEXTS, None], object), k).tolist()
            for k in rng.integers(0, 6, n)
        ],
        pa.list_(pa.string()),
    ),
    "scores": lambda rng, n: pa.array(
        [None if k > 4 else rng.choice([0.1, 1e30, -1.0, 1e39, 7.0], k).tolist() for k in rng.integers(0, 6, n)],
        pa.large_list(pa.float64()),
    ),
    "no_lists": lambda rng, n: pa.nulls(n, pa.list_(pa.string())),
}
KINDS: dict[str, dict[str, Maker]] = {
    "numeric": NUMERIC | DEGENERATE, "categorical": CATEGORICAL, "boolean": BOOLEAN, "datetime": DATETIME, "text": TEXT,
    "list": LIST,
}  # fmt: skip
MAKERS = {name: (kind, make) for kind, makers in KINDS.items() for name, make in makers.items()}
TARGETS = ("none", "two classes", "three classes", "numbers")


@dataclass(frozen=True)
class Drawn:
    """A table that can be made again.

    Attributes
    ----------
    seed, n_rows : int
    columns : tuple of str
        Names in `MAKERS`; each has a separate generator, so that no column depends on the others.
    target : str
        One of `TARGETS`.
    """

    seed: int
    n_rows: int
    columns: tuple[str, ...]
    target: str = "two classes"

    @property
    def kinds(self) -> dict[str, str]:
        """Column to kind."""
        return {name: MAKERS[name][0] for name in self.columns}

    @property
    def arrow(self) -> pa.Table:
        """The table."""
        return pa.table({name: MAKERS[name][1](self._generator(name), self.n_rows) for name in self.columns})

    @property
    def y(self) -> Array:
        """The target: class codes, or numbers as floats; None without one."""
        rng = self._generator("the target")
        if self.target == "none":
            return None
        if self.target == "numbers":
            return rng.normal(5, 2, self.n_rows)
        return rng.integers(0, 2 if self.target == "two classes" else 3, self.n_rows)

    @property
    def n_classes(self) -> int:
        """The number of classes of the target; 0 for numbers."""
        return {"two classes": 2, "three classes": 3}.get(self.target, 0)

    def with_columns(self, *names: str) -> Drawn:
        """Return the table with further columns, or in another order."""
        return replace(self, columns=tuple(dict.fromkeys(names)))

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *name.encode()])


def tables(min_rows: int = 1, makers: tuple[str, ...] = tuple(MAKERS)) -> st.SearchStrategy[Drawn]:
    """Return tables of one row to 300, of any columns."""
    return st.builds(
        Drawn,
        seed=st.integers(0, 2**16),
        n_rows=st.sampled_from([n for n in (1, 2, 3, 5, 20, 70, 300) if n >= min_rows]),
        columns=st.lists(st.sampled_from(makers), min_size=1, max_size=9, unique=True).map(tuple),
        target=st.sampled_from(TARGETS),
    )


def other_rows(table: Drawn, rows: Array, seed: int) -> pa.Table:
    """Return the table with other values in `rows`: of another draw, nulls, or limits; levels that no row had."""
    strange = Drawn(table.seed + 1 + seed, table.n_rows, table.columns).arrow
    rng = np.random.default_rng(seed)
    columns = []
    for name, mine, theirs in zip(table.columns, table.arrow.columns, strange.columns, strict=True):
        if table.kinds[name] in ("categorical", "text"):
            new = np.where(rng.random(table.n_rows) < 0.5, [f"new {i % 5}" for i in range(table.n_rows)],
                           rng.choice(np.array(ODD_TEXTS, object), table.n_rows))  # fmt: skip
            theirs = pa.array(new, pa.string())
        elif pa.types.is_floating(mine.type):
            limits = rng.choice([np.inf, -np.inf, np.nan, 0.0, 4e37, 1e300], table.n_rows)
            theirs = pa.array(np.where(rng.random(table.n_rows) < 0.5, limits, 5.0), mine.type)
        theirs = theirs.combine_chunks() if isinstance(theirs, pa.ChunkedArray) else theirs
        null = pa.array(rng.random(table.n_rows) < 0.2)
        theirs = pc.if_else(null, pa.scalar(None, mine.type), theirs)
        columns.append(pc.if_else(pa.array(rows), theirs, mine.combine_chunks()))
    return pa.table(columns, names=table.arrow.column_names)
