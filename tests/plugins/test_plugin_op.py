"""An op of another package is the ops that it consists of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp

Install = Callable[..., Path]
SOURCE = """
import math
from gpupipe import kernel
from gpupipe.plugins import PluginOp

@kernel
def decibel(x):
    return 10.0 * math.log10(x)

class Sound(PluginOp):
    '''Level of a power, standardized, and its decibel.'''
    power: str
    def expand(self, columns):
        assert columns[self.power] == "numeric", columns
        return [
            {"kernel": {"use": decibel, "inputs": [self.power], "as": "db"}},
            {"standardize": [self.power, "db"]},
        ]

class Any_(PluginOp):
    parts: list
    def expand(self, columns):
        return self.parts

class Fails(PluginOp):
    def expand(self, columns):
        return columns["nothing"]
"""
PLUGINS = {"gpupipe.ops": {"sound": "pkg_o:Sound", "anything": "pkg_o:Any_", "fails": "pkg_o:Fails"}}


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"power": [1.0, 10.0, 100.0, 1000.0], "name": list("abab")})


@pytest.mark.slow
def test_its_features_are_those_of_the_formula(install: Install, frame: pd.DataFrame) -> None:
    install("pkg-o", "1", PLUGINS, SOURCE)
    program = gp.FeatureProgram([{"sound": {"power": "power"}}], view="codes").set_output(transform="pandas")
    made = program.fit_transform(frame)
    for name, values in (("power", frame["power"]), ("db", 10 * np.log10(frame["power"]))):
        np.testing.assert_allclose(made[name], (values - values.mean()) / values.std(ddof=0), rtol=1e-5)


@pytest.mark.parametrize(
    "parts",
    [
        [{"lag": {"key": "name", "time": "power", "columns": "power"}}],
        [{"generate": {"arithmetic": 2}}],
        [{"sound": {"power": "power"}}],
        [{"standardize": {"columns": "power", "no_such": 1}}],
        [{"no_such_op": "power"}],
        ["standardize"],
    ],
)
def test_what_cannot_be_part_of_an_op_is_refused_by_its_name(
    install: Install, frame: pd.DataFrame, parts: list[Any]
) -> None:
    install("pkg-o", "1", PLUGINS, SOURCE)
    with pytest.raises(gp.ConfigError) as error:
        gp.FeatureProgram([{"anything": {"parts": parts}}]).fit(frame)
    assert error.value.what.startswith("anything: ") and "features[0].anything" in error.value.where


def test_an_op_that_raises_is_named(install: Install, frame: pd.DataFrame) -> None:
    install("pkg-o", "1", PLUGINS, SOURCE)
    with pytest.raises(gp.ConfigError) as error:
        gp.FeatureProgram([{"fails": {}}]).fit(frame)
    assert "KeyError" in error.value.what
