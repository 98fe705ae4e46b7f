"""Uses of a model from Python, as one command of a campaign: ``roads MODEL TABLE``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from warnings import simplefilter

import pyarrow.parquet as pq

import gpupipe as gp
from gpupipe.errors import GpupipeError

N_ROWS = 3
ROADS = "roads"


def use_model(arguments: list[str]) -> int:
    """Use a model in every way; return 5 if it is refused, 1 if an error calls itself a bug, else 0.

    Errors that are not errors of gpupipe are raised.
    """
    folder, table = Path(arguments[1]), Path(arguments[2])
    try:
        model = gp.load_model(folder, "cpu")
    except GpupipeError as error:
        return _report(error)
    simplefilter("ignore", gp.PredictionWarning)  # the edited ranges of the training rows are wrong
    rows = pq.read_table(table).slice(0, N_ROWS)
    codes = {0}
    for use in _uses(model, folder, rows):
        try:
            use()
        except GpupipeError as error:
            if _report(error) == GpupipeError.exit_code:
                return 1
            codes.add(error.exit_code)
    return max(codes)


def _uses(model: gp.Model, folder: Path, rows: Any) -> Iterator[Callable[[], object]]:
    record = rows.slice(0, 1).to_pylist()
    yield lambda: repr(model)
    yield model._repr_html_
    yield lambda: model.importances
    yield lambda: model.predict_table(rows)
    yield lambda: model.transform(rows)
    yield lambda: model.drift(rows)
    yield model.verify
    yield lambda: model.explain(rows)
    yield lambda: model.scorer("numpy").predict(record)
    yield lambda: gp.load_scorer(folder, engine="numpy").predict(record)


def _report(error: GpupipeError) -> int:
    print(f"{error.title}: {error.what:.300}", file=sys.stderr)
    return error.exit_code
