"""Rows of requests and the explanations of their answers, whatever the form of the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpupipe.errors import RowError
from gpupipe.serve.problems import RequestProblem, invalid_rows
from gpupipe.serve.served_model import ServedModel

Row = Mapping[str, Any]
Explanations = Mapping[str, list[dict[str, Any]]]  # further outputs, by name


def require_rows(n_rows: int, max_rows: int, kind: str = "request") -> None:
    """Raise RequestProblem if a request has too many rows."""
    if n_rows > max_rows:
        raise RequestProblem("too_large", f"expected at most {max_rows:,} rows per {kind}; found {n_rows:,}")


def rows_of(columns: Mapping[str, Sequence[Any]], model: ServedModel) -> list[Row]:
    """Return the rows of columns of equal length; raise RequestProblem if there are none and a column is absent."""
    names = tuple(columns)
    rows: list[Row] = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if not rows:  # the columns are checked as those of a row
        try:
            model.scorer.encoder.encode([dict.fromkeys(names)])
        except RowError as error:
            raise invalid_rows(error.problems) from None
    return rows
