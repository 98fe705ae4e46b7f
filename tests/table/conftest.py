"""Fixtures that encode values, and decode encoded columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.backends import Backend
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import FIRST_LEVEL, NAT, Schema, declare
from tests.backends.pandas_double import PandasBackend


@pytest.fixture(scope="session")
def backend() -> PandasBackend:
    """Return the host backend, with frames for device readers."""
    return PandasBackend()


@pytest.fixture(scope="session")
def encoded(backend: Backend) -> Callable[..., Table]:
    """Return a function that encodes columns: ``encoded({"x": [1, 2]}, x="float")``."""

    def run(columns: Any, frozen: Schema | None = None, **declared: Any) -> Table:
        arrow = columns if isinstance(columns, pa.Table) else pa.table(columns)
        kinds = {name: declare(*((kind,) if isinstance(kind, str) else kind)) for name, kind in declared.items()}
        return encode(arrow, backend, kinds, frozen)

    return run


@pytest.fixture(scope="session")
def meaning() -> Callable[[Table, str], list[Any]]:
    """Return a function that decodes a column: levels, numbers or microseconds; None for null, ``"?"`` for unseen."""

    def read(table: Table, name: str) -> list[Any]:
        column = table.schema[name]
        values = table.column(name).tolist()
        if column.n_codes:
            words = [None, "?", "(rare)", *(column.levels or map(str, range(column.n_buckets)))]
            return [words[code] for code in values]
        if column.kind == "datetime":
            return [None if value == NAT else value for value in values]
        return [None if np.isnan(value) else value for value in values]

    assert FIRST_LEVEL == 3
    return read
