"""Trees that split `log1p` and `yeo_johnson` by an operand: no row moves, whatever the digits of the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.inference.targets.exact_columns import ExactColumn
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.rows.lowering import FINITE, LoweredInstruction

REGISTER = 0
LOG1P = (LoweredInstruction(Opcode.LOG1P), LoweredInstruction(FINITE))
SCALE = LoweredInstruction(Opcode.SCALE, params=(0.37, -1.5))
CHAINS = {
    "log1p": LOG1P,
    "log1p and scale": (*LOG1P, SCALE),
    "log1p, fill and clip": (
        *LOG1P, LoweredInstruction(Opcode.FILL, params=(2.5, 0.0)), LoweredInstruction(Opcode.CLIP, params=(1.0, 9.0)),
    ),
    "yeo_johnson": (LoweredInstruction(Opcode.YEO_JOHNSON, params=(0.4, 0.0)),),
    "yeo_johnson, decreasing growth": (LoweredInstruction(Opcode.YEO_JOHNSON, params=(-0.8, 0.0)), SCALE),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_limit_is_the_last_number_on_the_left(name: str) -> None:
    column = ExactColumn(REGISTER, REGISTER, CHAINS[name])
    x = np.concatenate([np.arange(-0.75, 400, 0.25), 10.0 ** np.arange(-30, 30, 0.5)]).astype(np.float32)
    limits = column.of(x).astype(np.float64)
    found = column.limits(limits).astype(np.float32)
    with np.errstate(over="ignore"):
        after = np.nextafter(found, np.float32(np.inf))
    assert (column.of(found) <= limits).all()
    assert (~(column.of(after) <= limits) | np.isinf(after)).all()
    assert (x <= found).all()  # the numbers themselves


def test_limits_outside_of_the_image_send_all_or_nothing_to_the_left() -> None:
    column = ExactColumn(REGISTER, REGISTER, LOG1P)
    found = column.limits(np.array([-np.inf, -1e30, 1e30]))
    assert found[0] <= -1 and found[1] <= -1  # where the image is null
    assert found[2] == np.finfo(np.float32).max


ROWS = 1500
FEW: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 60, "max_depth": 6, "early_stopping_rounds": None, "learning_rate": 0.3},
    "lightgbm": {"n_estimators": 60, "early_stopping_rounds": None},
    "catboost": {"iterations": 60, "early_stopping_rounds": None, "depth": 6},
    "hist_gradient_boosting": {"max_iter": 40, "early_stopping": False},
    "random_forest": {"n_estimators": 10},
    "extra_trees": {"n_estimators": 10},
}


def sales() -> pd.DataFrame:
    """Return amounts over six powers of ten, with negative and missing ones, a group and a price."""
    rng = np.random.default_rng(21)
    amount = np.round(10 ** rng.uniform(0, 6, ROWS))
    amount[:40] = rng.choice([-1.0, -7.0, 0.0, np.nan, -0.5, 3e12], 40)
    speed = rng.integers(-2_000, 2_000, ROWS) / 8
    price = 3 * np.log1p(np.nan_to_num(np.maximum(amount, 0))) + np.sqrt(np.abs(speed)) + rng.normal(0, 2, ROWS)
    return pd.DataFrame({"amount": amount, "speed": speed, "shop": rng.choice(list("abcdef"), ROWS), "price": price})


FEATURES: dict[str, Any] = {
    "log1p": [{"log1p": ["amount"]}],
    "log1p, impute, scale": [
        {"log1p": ["amount"]}, {"impute": {"columns": ["amount"], "indicator": True}}, {"standardize": ["amount"]},
        {"yeo_johnson": ["speed"]},
    ],
    "added columns": [{"log1p": {"columns": "amount", "as": "amount_log"}}, {"yeo_johnson": ["speed"]}],
}  # fmt: skip
CASES = [(name, "log1p, impute, scale") for name in FEW] + [("xgboost", "log1p"), ("catboost", "added columns")]


@pytest.mark.parametrize(("name", "features"), CASES)
def test_all_rows_have_the_predictions_of_the_model(tmp_path: Path, name: str, features: str) -> None:
    frame = sales()
    pipeline = gp.Pipeline(
        frame, target="price", features=FEATURES[features], models=[{name: FEW[name]}],
        report={"enabled": False}, evaluate={"importance": False},
    )  # fmt: skip
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu")
    exported = model.to_onnx(tmp_path / "model.onnx")
    assert [each.moved for each in exported.comparisons] == [0] * len(exported.comparisons)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    rows = {column: frame[column].to_numpy("float64").reshape(-1, 1) for column in ("amount", "speed")}
    rows["shop"] = frame["shop"].to_numpy(object).reshape(-1, 1)
    found = session.run(None, rows)[0]
    np.testing.assert_allclose(found, model.predict(frame), rtol=0, atol=1e-5 * frame["price"].abs().max())


def test_members_of_an_ensemble_split_by_operands_too(tmp_path: Path) -> None:
    frame = sales()
    best = {"best": {"folds": 2, "models": ["extra_trees"], "members": 1}}
    pipeline = gp.Pipeline(
        frame, target="price", features=FEATURES["log1p"], models=[best], report={"enabled": False},
        evaluate={"importance": False},
    )  # fmt: skip
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu")
    assert model.to_onnx(tmp_path / "model.onnx").comparisons[0].moved == 0
