"""Functions that are compared: from a row to the probability that the customer leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from benchmarks.single_row.workloads import PEERS, WORKLOADS, XGBOOST, read_peer, read_rows
from gpupipe.typing import Array

Row = Mapping[str, Any]
Predict = Callable[[Any], float]
Opened = tuple[Predict, list[Any]]
"""A function, and the rows in the form that it takes."""

NUMBA = "scorer, numba"
NUMPY = "scorer, numpy"
OF_PANDAS = "scorer, values of pandas"
OF_NUMPY = "scorer, values of NumPy"
MODEL = "Model"
FRAME = "Model, frame of pandas"
SKLEARN = "scikit-learn"
SKRUB = "skrub"
BOOSTER, ONNX = "XGBoost, trees only", "ONNX Runtime, trees only"
SCORERS = (NUMBA, NUMPY)
EQUAL = (*SCORERS, OF_PANDAS, OF_NUMPY, FRAME)  # give the bits of the model


def _scorer(folder: Path, engine: Literal["numpy", "numba"]) -> Opened:
    from gpupipe import load_scorer

    rows = read_rows(folder)  # before the load: it would replace the model in the caches of the processor
    predict_proba = load_scorer(folder / "run", engine=engine).predict_proba
    return lambda row: predict_proba(row)[1], rows


def _scorer_of(folder: Path, row_of: Callable[[Row], Row]) -> Opened:
    """Return the compiled scorer, for rows of values of another library."""
    predict, rows = _scorer(folder, "numba")
    return predict, [row_of(row) for row in rows]


def _values_of_pandas(row: Row) -> Row:
    """Return a row as ``frame.to_dict("records")`` does."""
    import pandas as pd

    given = {name: math.nan if value is None else value for name, value in row.items()}
    return {name: pd.Timestamp(value) if hasattr(value, "year") else value for name, value in given.items()}


def _values_of_numpy(row: Row) -> Row:
    import numpy as np

    kinds = {float: np.float64, int: np.int64, str: np.str_, bool: np.bool_}
    return {
        name: value if value is None else kinds.get(type(value), np.datetime64)(value) for name, value in row.items()
    }


def _frame(folder: Path) -> Opened:
    """Return the model, for frames of one row."""
    import pandas as pd

    from gpupipe import load_model

    predict_proba = load_model(folder / "run").predict_proba
    frame = pd.DataFrame(read_rows(folder))
    return lambda row: predict_proba(row)[0, 1], [frame.iloc[i : i + 1] for i in range(len(frame))]


def _model(folder: Path) -> Opened:
    from gpupipe import load_model

    predict_proba = load_model(folder / "run").predict_proba
    return lambda row: predict_proba([row])[0, 1], read_rows(folder)


def _peer(folder: Path, name: str) -> Opened:
    """Return a pipeline that takes a frame of one row. The frame is made in the measured call."""
    import pandas as pd

    predict_proba = read_peer(folder, name).predict_proba
    rows = [
        {column: math.nan if value is None else value for column, value in row.items()} for row in read_rows(folder)
    ]
    return lambda row: predict_proba(pd.DataFrame([row]))[0, 1], rows


def _booster(folder: Path) -> Opened:
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(folder / "run" / "model" / "estimator.ubj")
    return lambda features: booster.inplace_predict(features)[0], _feature_rows(folder)


def _feature_rows(folder: Path) -> list[Array]:
    """Return the features of gpupipe's model, float32, shape (1, d) for each row."""
    from gpupipe import load_scorer

    scorer = load_scorer(folder / "run", engine="numpy")
    return [scorer.features([row]).copy(order="C") for row in read_rows(folder)]


def _onnx(folder: Path) -> Opened:
    """Return the trees of the scikit-learn pipeline in ONNX Runtime.

    onnxmltools 1.16 converts trees with categorical splits, such as gpupipe's, without an error and to other results.
    The trees of the scikit-learn pipeline have numeric splits only.
    """
    import numpy as np
    import onnxruntime
    import pandas as pd
    from onnxmltools.convert import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    pipeline = read_peer(folder, "sklearn")
    features = pipeline[:-1].transform(pd.DataFrame(read_rows(folder))).astype(np.float32)
    converted = convert_xgboost(pipeline[-1], initial_types=[("X", FloatTensorType([None, features.shape[1]]))])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(converted.SerializeToString(), options, providers=["CPUExecutionProvider"])
    output = session.get_outputs()[1].name
    return lambda row: session.run([output], {"X": row})[0][0, 1], list(features[:, np.newaxis, :])


OPENERS: dict[str, Callable[[Path], Opened]] = {
    NUMBA: lambda folder: _scorer(folder, "numba"),
    NUMPY: lambda folder: _scorer(folder, "numpy"),
    OF_PANDAS: lambda folder: _scorer_of(folder, _values_of_pandas),
    OF_NUMPY: lambda folder: _scorer_of(folder, _values_of_numpy),
    MODEL: _model,
    FRAME: _frame,
    SKLEARN: lambda folder: _peer(folder, PEERS[0]),
    SKRUB: lambda folder: _peer(folder, PEERS[1]),
    BOOSTER: _booster,
    ONNX: _onnx,
}


def implementations(workload: str) -> list[str]:
    """Return the names of the implementations of a workload."""
    of_trees = (BOOSTER, ONNX)
    return [name for name in OPENERS if WORKLOADS[workload].model == XGBOOST or name not in of_trees]
