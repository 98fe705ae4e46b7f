"""Small real frames for feature ops, and a helper to run the ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.backends import Backend, choose
from gpupipe.features import OPS
from gpupipe.features.program.fit import fit_features
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import Statistics
from gpupipe.model_parts.feature_files import check_program
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare


@cache
def backend(n_threads: int) -> Backend:
    """Return the backend with `n_threads` threads, shared by all tests."""
    made = choose("cpu")
    made.n_threads = n_threads
    return made


class Fit:
    """Ops fitted to a frame.

    Parameters
    ----------
    frame : pandas.DataFrame, pyarrow.Table, or mapping of str to values
    ops : sequence of single-key mappings
        As in a configuration.
    y : array or Target, optional
        Whole numbers are class codes, floats are numbers to predict; or a `Target`.
    view : {"dense", "codes"}
    schema : mapping of str to str, optional
    seed : int
    n_threads : int
    weights : array, optional
        Of the rows.

    Attributes
    ----------
    features : FittedFeatures
    statistics : Statistics
    training : pandas.DataFrame
        The matrix of the rows fitted.
    """

    def __init__(
        self,
        frame: Any,
        ops: Sequence[Mapping[str, Any]] = (),
        y: Any = None,
        view: str = "dense",
        schema: Mapping[str, str] | None = None,
        seed: int = 0,
        n_threads: int = 2,
        weights: Any = None,
    ) -> None:
        self.backend = backend(n_threads)
        declared = {name: declare(kind) for name, kind in (schema or {}).items()}
        self.table = encode(self._arrow(frame), self.backend, declared)
        self.statistics = Statistics(self.table, self.backend, self._target(y), seed, weights=weights)
        made = [OPS.get(name).model_validate(settings) for op in ops for name, settings in op.items()]
        self.features: FittedFeatures = fit_features(made, self.statistics, view)  # type: ignore[arg-type]
        check_program(self.features.program, self.features.schema)
        matrix = self.features.transform_training(self.statistics.table, self.backend)
        self.training = pd.DataFrame(matrix, columns=self.features.names)

    def serve(self, frame: Any) -> pd.DataFrame:
        """Return the matrix of other rows, as a served model would make it."""
        table = encode(self._arrow(frame), self.backend, frozen=self.features.schema)
        return pd.DataFrame(self.features.transform(table, self.backend), columns=self.features.names)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix."""
        return self.features.names

    @property
    def notes(self) -> str:
        """The notes of the fit, as one text."""
        return "\n".join(self.features.notes)

    @staticmethod
    def _arrow(frame: Any) -> pa.Table:
        if isinstance(frame, pa.Table):
            return frame
        return pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False)

    @staticmethod
    def _target(y: Any) -> Target | None:
        if y is None or isinstance(y, Target):
            return y
        values = np.asarray(y)
        n_classes = 0 if values.dtype.kind == "f" else max(2, int(values.max()) + 1)
        return Target(values.astype(np.float64), n_classes)


@pytest.fixture(scope="session")
def fit() -> type[Fit]:
    """Return the way to fit ops to a frame; of the whole session, so that Hypothesis takes it."""
    return Fit


@pytest.fixture
def people() -> pd.DataFrame:
    """Return 400 rows with every kind of column, nulls in most of them."""
    rng = np.random.default_rng(3)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": rng.lognormal(10, 1, n),
            "plan": rng.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1]),
            "city": rng.choice([f"city {i:02d}" for i in range(40)], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900 * 24, n), unit="h"),
            "active": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "plan"] = None
    frame.loc[rng.random(n) < 0.05, "since"] = pd.NaT
    frame.loc[rng.random(n) < 0.05, "active"] = pd.NA
    return frame
