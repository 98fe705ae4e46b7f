"""Arguments of XGBoost's Dask estimators, checked against the installed version: no snapshot has them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from gpupipe.backends.gpu.estimators import ESTIMATORS

xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
pytest.importorskip("xgboost.dask", reason="Dask is not installed")

BOOSTING = Path(__file__).parents[3] / "gpupipe" / "dask" / "boosting.py"
NAMES = ("DaskXGBClassifier", "DaskXGBRegressor")


def keywords_of_fit() -> set[str]:
    """Return the keys of the dictionaries that are made where `fit` is called."""
    (train,) = [
        node
        for node in ast.walk(ast.parse(BOOSTING.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "_train"
    ]
    keys = [key for node in ast.walk(train) if isinstance(node, ast.Dict) for key in node.keys]
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


@pytest.mark.parametrize("name", NAMES)
def test_the_constructor_has_the_parameters_of_the_table_and_the_device(name: str) -> None:
    passed = ESTIMATORS[name.removeprefix("Dask")].passed
    assert "device" in passed
    assert issubclass(getattr(xgboost.dask, name), xgboost.XGBModel)
    of_objectives = {"quantile_alpha"}  # passed on by XGBModel
    assert passed - of_objectives <= set(inspect.signature(xgboost.XGBModel.__init__).parameters)


@pytest.mark.parametrize("name", NAMES)
def test_fit_accepts_the_keywords_that_we_pass(name: str) -> None:
    assert {"sample_weight", "eval_set", "sample_weight_eval_set", "verbose"} <= keywords_of_fit()
    assert keywords_of_fit() <= set(inspect.signature(getattr(xgboost.dask, name).fit).parameters)


def test_xgboost_has_the_setting_for_the_pool_of_the_driver() -> None:
    """`gpupipe.backends.gpu.memory.share_with_xgboost` leaves an XGBoost without it alone."""
    assert "use_cuda_async_pool" in xgboost.get_config()
