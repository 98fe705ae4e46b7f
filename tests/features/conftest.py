"""Small real frames for the feature ops, and one way to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.backends import choose
from gpupipe.features import OPS
from gpupipe.features.fitted import FittedFeatures, fit_features
from gpupipe.features.statistics import Statistics, Target
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare

BACKEND = choose("cpu")


class Fit:
    """Ops fitted to a frame.

    Attributes
    ----------
    features : FittedFeatures
    training : pandas.DataFrame
        The matrix of the rows fitted.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        ops: Sequence[Mapping[str, Any]],
        y: Any = None,
        view: str = "dense",
        schema: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        declared = {name: declare(kind) for name, kind in (schema or {}).items()}
        table = encode(pa.Table.from_pandas(frame, preserve_index=False), BACKEND, declared)
        target = None
        if y is not None:
            values = np.asarray(y, np.float64)
            n_classes = len(np.unique(values)) if set(values) <= set(range(10)) else 0
            target = Target(values, n_classes)
        self.statistics = Statistics(table, BACKEND, target, seed)
        made = [OPS.get(name).model_validate(settings) for op in ops for name, settings in op.items()]
        self.features: FittedFeatures = fit_features(made, self.statistics, view)  # type: ignore[arg-type]
        matrix = self.features.transform_training(self.statistics.table, BACKEND)
        self.training = pd.DataFrame(matrix, columns=self.features.names)

    def serve(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the matrix of other rows, as a served model would make it."""
        arrow = pa.Table.from_pandas(frame, preserve_index=False)
        table = encode(arrow, BACKEND, frozen=self.features.schema)
        return pd.DataFrame(self.features.transform(table, BACKEND), columns=self.features.names)


@pytest.fixture
def fit() -> type[Fit]:
    """Return the way to fit ops to a frame."""
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
            "active": rng.random(n) < 0.5,
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "plan"] = None
    frame.loc[rng.random(n) < 0.05, "since"] = pd.NaT
    return frame
