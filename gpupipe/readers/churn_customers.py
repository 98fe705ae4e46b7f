"""The customers of the churn generator, a block at a time: who they are, what they pay, whether they leave.

Every block of `BLOCK_ROWS` customers draws each of its columns from a random stream of its own, keyed by (seed, name of
the column, number of the block). So a value depends on the seed and on its row alone, never on how many rows are made,
in which batches, or together with which other columns.
"""

from __future__ import annotations

import zlib
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

BLOCK_ROWS = 16_384
SNAPSHOT = np.datetime64("2025-01-01T00:00:00", "s").astype(np.int64)  # when the table was drawn up
SECONDS_PER_DAY = 86_400
SECONDS_PER_MONTH = 2_629_800
AGE_MISSING = 0.04

NO_YES = ("No", "Yes")
_SERVICE = ("No", "Yes", "No internet service")

# Levels and their shares. The third level of a service is not drawn: it follows from InternetService or PhoneService.
CATEGORICALS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "gender": (("Female", "Male"), (0.495, 0.505)),
    "Partner": (NO_YES, (0.52, 0.48)),
    "Dependents": (NO_YES, (0.70, 0.30)),
    "PhoneService": (NO_YES, (0.10, 0.90)),
    "PaperlessBilling": (NO_YES, (0.41, 0.59)),
    "MultipleLines": (("No", "Yes", "No phone service"), (0.53, 0.47)),
    "InternetService": (("DSL", "Fiber optic", "No"), (0.35, 0.44, 0.21)),
    "OnlineSecurity": (_SERVICE, (0.63, 0.37)),
    "OnlineBackup": (_SERVICE, (0.56, 0.44)),
    "DeviceProtection": (_SERVICE, (0.56, 0.44)),
    "TechSupport": (_SERVICE, (0.63, 0.37)),
    "StreamingTV": (_SERVICE, (0.51, 0.49)),
    "Contract": (("Month-to-month", "One year", "Two year"), (0.55, 0.21, 0.24)),
    "PaymentMethod": (
        ("Electronic check", "Mailed check", "Bank transfer (automatic)", "Credit card (automatic)"),
        (0.34, 0.23, 0.22, 0.21),
    ),
    "Region": (("North", "South", "East", "West", "Centre", "Overseas"), (0.28, 0.26, 0.24, 0.196, 0.02, 0.004)),
}
N_CITIES = 2_000
_CITY_WEIGHTS = 1.0 / (np.arange(N_CITIES) + 20.0)  # Zipf-like: a few large cities, very many small ones
_CITY_SHARES = tuple(_CITY_WEIGHTS / _CITY_WEIGHTS.sum())


def generator(seed: int, stream: str, block: int) -> np.random.Generator:
    """Return the random numbers of one stream of one block, whatever was drawn before."""
    key = np.array([seed, zlib.crc32(stream.encode()) << 32 | block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def draw(rng: np.random.Generator, shares: tuple[float, ...]) -> Codes:
    """Return `BLOCK_ROWS` codes, code i with probability ``shares[i]``."""
    bounds = np.cumsum(shares)[:-1]
    return np.searchsorted(bounds, rng.random(BLOCK_ROWS), side="right").astype(np.int32)


# What each city adds to the log-odds of leaving, alone and with each contract. The same for every seed: tables of two
# seeds are two samples of one population, so one can train and the other serve.
_CITY_EFFECT = generator(0, "effect of a city", 0).normal(0.0, 0.55, N_CITIES)
_CITY_CONTRACT_EFFECT = generator(0, "effect of a city and a contract", 0).normal(0.0, 0.35, (N_CITIES, 3))


class CustomerBlock:
    """The values of `BLOCK_ROWS` consecutive customers, nothing missing yet; each is computed when first asked for.

    Parameters
    ----------
    seed : int
        0 to 2**64 - 1.
    index : int
        Number of the block; its first row is ``index * BLOCK_ROWS``.
    """

    def __init__(self, seed: int, index: int) -> None:
        self.seed, self.index = seed, index
        self._codes: dict[str, Codes] = {}

    def rng(self, stream: str) -> np.random.Generator:
        """Return the random numbers of one stream of this block."""
        return generator(self.seed, stream, self.index)

    def codes(self, name: str) -> Codes:
        """Return the codes of a categorical column."""
        if name not in self._codes:
            levels, shares = CATEGORICALS[name]
            codes = draw(self.rng(name), shares)
            if levels == _SERVICE:
                codes[self.codes("InternetService") == 2] = 2
            elif name == "MultipleLines":
                codes[self.codes("PhoneService") == 0] = 2
            self._codes[name] = codes
        return self._codes[name]

    @cached_property
    def city(self) -> Codes:
        return draw(self.rng("City"), _CITY_SHARES)

    @cached_property
    def tenure(self) -> npt.NDArray[np.int64]:
        """Months since signing up, 0 to 72; the longer the contract, the longer the customer has been here."""
        skew = np.array([1.5, 0.9, 0.6])[self.codes("Contract")]
        share: Floats = self.rng("tenure").random(BLOCK_ROWS) ** skew
        return (73 * share).astype(np.int64)

    @cached_property
    def signup_hour(self) -> Floats:
        return self.rng("signup hour").normal(14.0, 5.0, BLOCK_ROWS).clip(0.0, 23.999)

    @cached_property
    def signup(self) -> npt.NDArray[np.int64]:
        """Seconds since 1970; a random day of the month that `tenure` points at."""
        month_start = SNAPSHOT - (self.tenure + 1) * SECONDS_PER_MONTH
        day = (month_start + self.rng("signup day").random(BLOCK_ROWS) * SECONDS_PER_MONTH) // SECONDS_PER_DAY - 1
        seconds: npt.NDArray[np.int64] = (day * SECONDS_PER_DAY + self.signup_hour * 3600).astype(np.int64)
        return seconds

    @cached_property
    def monthly_charges(self) -> Floats:
        internet = self.codes("InternetService")
        services = 18 + 12 * (self.codes("StreamingTV") == 1) + 25 * (internet == 1) + 15 * (internet != 2)
        charges: Floats = np.round(services + self.rng("MonthlyCharges").gamma(4.0, 4.0, BLOCK_ROWS), 2)
        return charges

    @cached_property
    def total_charges(self) -> Floats:
        noise = self.rng("TotalCharges").lognormal(0.0, 0.15, BLOCK_ROWS)
        total: Floats = np.round(self.monthly_charges * np.maximum(self.tenure, 1) * noise, 2)
        return total

    @cached_property
    def usage(self) -> Floats:
        offline = np.where(self.codes("InternetService") == 2, 0.05, 1.0)
        usage: Floats = np.round(self.rng("DataUsageGB").lognormal(2.5, 1.1, BLOCK_ROWS) * offline, 3)
        return usage

    @cached_property
    def support_calls(self) -> npt.NDArray[np.int64]:
        return self.rng("SupportCalls").poisson(1.3, BLOCK_ROWS)

    @cached_property
    def age(self) -> Floats:
        age: Floats = np.round(self.rng("Age").normal(46.0, 16.0, BLOCK_ROWS).clip(18.0, 95.0))
        return age

    def is_missing(self, column: str, share: float) -> npt.NDArray[np.bool_]:
        """Return which values of `column` are missing."""
        missing: npt.NDArray[np.bool_] = self.rng(f"{column} missing").random(BLOCK_ROWS) < share
        return missing

    @cached_property
    def log_odds(self) -> Floats:
        """The true log-odds of leaving: no model can know more than this."""
        contract, payment, internet = (self.codes(c) for c in ("Contract", "PaymentMethod", "InternetService"))
        z = np.array([-0.15, -1.75, -2.7])[contract] + np.array([0.5, -0.1, -0.25, -0.25])[payment]
        z += np.array([0.0, 0.6, -0.8])[internet] + np.array([0, 0, 0, 0, 0.3, 1.2])[self.codes("Region")]
        z -= 0.4 * (self.codes("TechSupport") == 1) + 0.35 * (self.codes("OnlineSecurity") == 1)
        z += 1.6 * np.exp(-self.tenure / 8) - 0.014 * (self.tenure - 36) + 0.016 * (self.monthly_charges - 60)
        z += 0.22 * (self.support_calls - 1.3) + 0.7 * (self.support_calls >= 4) - 0.12 * np.log1p(self.usage)
        z += 0.3 * np.sin(2 * np.pi * self.signup_hour / 24)
        z -= 0.25 * ((self.codes("Partner") == 1) & (self.age > 50))
        z += 0.4 * self.is_missing("Age", AGE_MISSING)  # who withholds the age is less attached: worth an indicator
        z += _CITY_EFFECT[self.city] + _CITY_CONTRACT_EFFECT[self.city, contract]
        log_odds: Floats = z
        return log_odds

    @cached_property
    def churned(self) -> Codes:
        chance = 1.0 / (1.0 + np.exp(-self.log_odds))
        return (self.rng("Churn").random(BLOCK_ROWS) < chance).astype(np.int32)

    @cached_property
    def ids(self) -> pa.Array:
        """Identifiers such as ``7590-VHVEG``, unique in a table of up to 10**4 * 26**5 rows."""
        row = np.arange(BLOCK_ROWS, dtype=np.int64) + self.index * BLOCK_ROWS
        lap, place = np.divmod(row, 26**5)
        letters = (place * 7_654_321 + self.seed % 26**5) % 26**5  # one to one: 7,654,321 is odd and no multiple of 13
        digits = (place * 7_919 % 10_007 + lap) % 10**4
        text = np.empty((BLOCK_ROWS, 10), np.uint8)
        for k in range(4):
            digits, text[:, 3 - k] = digits // 10, ord("0") + digits % 10
        text[:, 4] = ord("-")
        for k in range(5):
            letters, text[:, 9 - k] = letters // 26, ord("A") + letters % 26
        ends = np.arange(0, text.size + 1, 10, dtype=np.int32)
        return pa.StringArray.from_buffers(BLOCK_ROWS, pa.py_buffer(ends), pa.py_buffer(text))
