"""Population of the churn generator, as lookup tables.

Random numbers are never passed to functions whose last digits depend on the library: they index tables that are
computed once. The remaining arithmetic is rounded identically on every processor.

``levels``   codes of a categorical column or a count, in `CELLS` equally likely cells
``curve``    quantile function of a number, linear in each of `KNOTS` cells
``effects``  additive effect of each code
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

KNOTS = 1 << 14
POINTS = 1 << 17  # grid points of a density, which is linear between them


def _quantiles(density: Callable[[Floats], Floats], low: float, high: float) -> Floats:
    """Return the quantiles, shape (KNOTS + 1,), of a distribution with negligible mass outside [`low`, `high`].

    The tails end where a linear first and last cell have the same mean as the distribution.
    """
    x = np.linspace(low, high, POINTS)
    mass, moment = _summed(density(x)), _summed(x * density(x))
    knots = np.interp(np.linspace(0.0, 1.0, KNOTS + 1), mass / mass[-1], x)
    first, last = np.interp(knots[[1, -2]], x, moment)
    cell = mass[-1] / KNOTS
    knots[[0, -1]] = 2 * first / cell - knots[1], 2 * (moment[-1] - last) / cell - knots[-2]
    return knots


def _summed(heights: Floats) -> Floats:
    """Return the cumulative area up to each point, in a unit common to all curves over these points."""
    return np.cumsum(np.append(0.0, heights[1:] + heights[:-1]))


@cache
def normal() -> Floats:
    """Return the quantiles of the standard normal distribution."""
    return _quantiles(lambda x: np.exp(-x * x / 2), -8.0, 8.0)


@cache
def logistic() -> Floats:
    """Return the quantiles of the logistic distribution."""
    return _quantiles(lambda x: 1.0 / np.cosh(x / 2) ** 2, -40.0, 40.0)


@cache
def gamma() -> Floats:
    """Return the quantiles of the gamma distribution with shape 4."""
    return _quantiles(lambda x: x**3 * np.exp(-x), 0.0, 50.0)


CELLS = 1 << 16  # shares of levels are multiples of 1 / CELLS
BITS = 50  # bits of the position in a cell; with the cell number, they fill one word
NO_YES = ("No", "Yes")
SERVICE = ("No", "Yes", "No internet service")

# Levels and their shares. The third level of a service is not drawn, but set by InternetService or PhoneService.
CATEGORICALS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "gender": (("Female", "Male"), (0.495, 0.505)),
    "Partner": (NO_YES, (0.52, 0.48)),
    "Dependents": (NO_YES, (0.70, 0.30)),
    "PhoneService": (NO_YES, (0.10, 0.90)),
    "PaperlessBilling": (NO_YES, (0.41, 0.59)),
    "MultipleLines": (("No", "Yes", "No phone service"), (0.53, 0.47)),
    "InternetService": (("DSL", "Fiber optic", "No"), (0.35, 0.44, 0.21)),
    "OnlineSecurity": (SERVICE, (0.63, 0.37)),
    "OnlineBackup": (SERVICE, (0.56, 0.44)),
    "DeviceProtection": (SERVICE, (0.56, 0.44)),
    "TechSupport": (SERVICE, (0.63, 0.37)),
    "StreamingTV": (SERVICE, (0.51, 0.49)),
    "Contract": (("Month-to-month", "One year", "Two year"), (0.55, 0.21, 0.24)),
    "PaymentMethod": (
        ("Electronic check", "Mailed check", "Bank transfer (automatic)", "Credit card (automatic)"),
        (0.34, 0.23, 0.22, 0.21),
    ),
    "Region": (("North", "South", "East", "West", "Centre", "Overseas"), (0.28, 0.26, 0.24, 0.196, 0.02, 0.004)),
}
N_CITIES = 2_000
_CITY_WEIGHTS = 1.0 / (np.arange(N_CITIES) + 20.0)  # Zipf-like: a few large cities, many small ones
N_CONTRACTS = len(CATEGORICALS["Contract"][0])
MISSING = {"MonthlyCharges": 0.02, "TotalCharges": 0.03, "DataUsageGB": 0.05, "Age": 0.04}
MOST_MONTHS = 72
TENURE_SKEW = (1.5, 0.9, 0.6)  # by contract: longer contracts have longer tenures
MEAN_CALLS, MOST_CALLS = 1.3, 12
OFFLINE = 0.05  # data usage without internet at home, relative to that of others

PRICES = {"InternetService": (33.0, 58.0, 18.0), "StreamingTV": (0.0, 12.0, 0.0)}
# Effects of levels on the log-odds of churn.
ODDS = {
    "Contract": (-0.15, -1.75, -2.7),
    "PaymentMethod": (0.5, -0.1, -0.25, -0.25),
    "InternetService": (0.0, 0.6, -0.8),
    "Region": (0.0, 0.0, 0.0, 0.0, 0.3, 1.2),
    "TechSupport": (0.0, -0.4, 0.0),
    "OnlineSecurity": (0.0, -0.35, 0.0),
}


def generator(seed: int, stream: str, block: int) -> np.random.Generator:
    """Return a generator for one block of a stream."""
    key = np.array([seed, zlib.crc32(stream.encode()) << 32 | block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


@cache
def levels(name: str) -> Codes:
    """Return the codes of a column, int32, shape (CELLS,); for ``tenure``, months per contract, concatenated."""
    if name == "tenure":
        share = (np.arange(CELLS) + 0.5) / CELLS
        return np.concatenate([(share**skew * (MOST_MONTHS + 1)).astype(np.int32) for skew in TENURE_SKEW])
    if name == "City":
        return _filled(_CITY_WEIGHTS)
    if name == "SupportCalls":
        return _filled([MEAN_CALLS**n / math.factorial(n) for n in range(MOST_CALLS + 1)])  # Poisson distribution
    return _filled(CATEGORICALS[name][1])


@cache
def curve(name: str) -> Floats:
    """Return the start values, and the slopes per ``2**-BITS`` of a cell, of a curve: float64, shape (2, KNOTS)."""
    at = CURVES[name]()
    return np.stack([at[:-1], np.diff(at) * 2.0**-BITS])


@cache
def effects(name: str) -> Floats:
    """Return the additive effect of each code, float64, shape (codes,)."""
    if name == "tenure":
        months = np.arange(MOST_MONTHS + 1)
        return 1.6 * np.exp(-months / 8) - 0.014 * (months - 36)
    if name == "SupportCalls":
        calls = np.arange(MOST_CALLS + 1)
        return 0.22 * (calls - MEAN_CALLS) + 0.7 * (calls >= 4)
    if name == "City":
        # Effects of a city, and of a city with each contract. They are the same for every seed: tables of two seeds are
        # samples of one population, so one can be used for training and the other for serving.
        city = generator(0, "effect of a city", 0).normal(0.0, 0.55, (N_CITIES, 1))
        both = generator(0, "effect of a city and a contract", 0).normal(0.0, 0.35, (N_CITIES, N_CONTRACTS))
        return (city + both).ravel()
    return np.array((PRICES | {f"{column} odds": odds for column, odds in ODDS.items()})[name])


def _filled(weights: Sequence[float] | npt.NDArray[Any]) -> Codes:
    """Return the code of each cell, with a number of cells per code proportional to its weight."""
    bounds = np.rint(np.cumsum(weights) / np.sum(weights) * CELLS).astype(np.int64)
    return np.repeat(np.arange(len(bounds), dtype=np.int32), np.diff(bounds, prepend=0))


def _hours() -> Floats:
    return (14.0 + 5.0 * normal()).clip(0.0, 23.999)


def _usage() -> Floats:
    return np.exp(2.5 + 1.1 * normal())


CURVES: dict[str, Callable[[], Floats]] = {
    "MonthlyCharges": lambda: 4.0 * gamma(),
    "TotalCharges": lambda: np.exp(0.15 * normal()),
    "DataUsageGB": _usage,
    "DataUsageGB odds": lambda: -0.12 * np.log1p(_usage()),
    "DataUsageGB odds offline": lambda: -0.12 * np.log1p(OFFLINE * _usage()),
    "Age": lambda: (46.0 + 16.0 * normal()).clip(18.0, 95.0),
    "signup day": lambda: np.linspace(0.0, 1.0, KNOTS + 1),
    "signup hour": _hours,
    "signup hour odds": lambda: 0.3 * np.sin(2 * np.pi * _hours() / 24),
    "Churn": logistic,
}
