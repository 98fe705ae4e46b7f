"""Pipelines of scikit-learn as SQL by orbital: ``python orbital_query.py ROWS.parquet``, in a separate environment.

Requirements: orbital, duckdb, pandas, pyarrow. The table is that of `gpupipe.datasets.churn`. orbital has no target
encoding, crosses, dates or indicators of missing values, so the pipelines impute and scale the numbers, and encode the
categories but City as one-hot. For each model one line of JSON: characters, seconds of DuckDB, largest difference.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import duckdb
import numpy as np
import orbital
import pandas as pd
from orbital import types
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TARGET = "Churn"
N_TRAIN, N_COMPARED = 80_000, 10_000


def main() -> None:
    """Run the program."""
    frame = pd.read_parquet(sys.argv[1]).drop(columns=["customerID", "City", "signup_ts"])
    y = (frame.pop(TARGET) == "Yes").astype(int)
    numbers = [str(name) for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    frame[numbers] = frame[numbers].astype("float64")
    levels = [str(name) for name in frame if name not in numbers]
    frame[levels] = frame[levels].astype(object).fillna("missing")
    features: dict[str, Any] = {
        name: types.DoubleColumnType() if name in numbers else types.StringColumnType() for name in map(str, frame)
    }
    boosting = GradientBoostingClassifier(n_estimators=150, max_depth=4, random_state=0)
    for model in (LogisticRegression(max_iter=1000), boosting):
        scaled = Pipeline([("impute", SimpleImputer()), ("scale", StandardScaler())])
        encoded = OneHotEncoder(handle_unknown="ignore")
        columns = ColumnTransformer([("numbers", scaled, numbers), ("levels", encoded, levels)])
        pipeline = Pipeline([("columns", columns), ("model", model)]).fit(frame[:N_TRAIN], y[:N_TRAIN])
        query = orbital.export_sql("customers", orbital.parse_pipeline(pipeline, features=features), dialect="duckdb")
        with duckdb.connect() as connection:
            connection.register("given", frame)
            connection.execute("CREATE TABLE customers AS SELECT * FROM given")
            start = time.perf_counter()
            connection.execute(f"CREATE TABLE scores AS {query}")
            seconds = time.perf_counter() - start
            found = connection.execute(f"SELECT * FROM scores LIMIT {N_COMPARED}").df()
        name = "output_probability.1"
        wanted = pipeline.predict_proba(frame[:N_COMPARED])[:, 1]
        largest = float(np.abs(found[name].to_numpy() - wanted).max())
        record = {"model": type(model).__name__, "characters": len(query), "seconds": seconds, "largest": largest}
        print(json.dumps(record | {"rows": len(frame)}), flush=True)


if __name__ == "__main__":
    main()
