"""Customers of the churn generator, in blocks of rows: random draws, values and typed columns.

The same code runs on NumPy and CuPy and uses only operations that both round identically. A value depends on the seed
and its row only, not on the number of rows, the blocks, the other columns or the processor.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.datasets.churn.population import (
    BITS,
    CATEGORICALS,
    CELLS,
    KNOTS,
    MISSING,
    N_CITIES,
    N_CONTRACTS,
    NO_YES,
    ODDS,
    OFFLINE,
    PRICES,
    SERVICE,
    Population,
)
from gpupipe.typing import Array
from gpupipe.units import DAY_SECONDS
from gpupipe_kernels.draws.philox import fill

# Draws that need only 16 bits: four of them share a word, in this order.
SMALL = (*CATEGORICALS, "City", "tenure", "SupportCalls", *(f"{name} missing" for name in MISSING))
PER_WORD = 4


class Draws:
    """Random numbers for rows `start` to ``start + n_rows - 1`` of the table for a seed.

    `population` determines the array library of all results.
    """

    def __init__(self, population: Population, seed: int, start: int, n_rows: int) -> None:
        self.population, self.xp = population, population.xp
        self.seed, self.start, self.n_rows = seed, start, n_rows
        self._words: dict[str, Array] = {}

    def words(self, stream: str) -> Array:
        """Return 64 random bits per row, as int64; users must not depend on the sign."""
        if stream not in self._words:
            bits = self.xp.empty(self.n_rows, "uint64")
            fill(bits, self.seed, zlib.crc32(stream.encode()) << 32, self.start)
            self._words[stream] = bits.view("int64")
        return self._words[stream]

    def cell(self, name: str) -> Array:
        """Return a uniform random integer in ``[0, CELLS)`` per row: int64."""
        word, part = divmod(SMALL.index(name), PER_WORD)
        return (self.words(f"small {word}") >> (16 * part)) & (CELLS - 1)

    def code(self, name: str) -> Array:
        """Return codes of a column with the level frequencies of the population: int32."""
        return self.xp.take(self.population.levels(name), self.cell(name))

    def number(self, stream: str, curve: str = "") -> Array:
        """Return random numbers with the distribution of a curve: float64.

        Two curves of one random `stream` are functions of the same random number. `curve` is the name of the curve, by
        default that of the stream.
        """
        begin, rise = self.population.curve(curve or stream)
        words = self.words(stream)
        at = (words >> BITS) & (KNOTS - 1)
        into = (words & ((1 << BITS) - 1)).astype("float64")
        # Separate operations: a fused multiply-add would round only once.
        return self.xp.take(begin, at) + self.xp.take(rise, at) * into

    def is_missing(self, name: str) -> Array:
        """Return the mask of missing values of a column: bool."""
        return self.cell(f"{name} missing") < round(MISSING[name] * CELLS)

    def effect(self, name: str, codes: Array) -> Array:
        """Return the additive effect of each code: float64."""
        return self.xp.take(self.population.effects(name), codes)


SNAPSHOT = int(np.datetime64("2025-01-01T00:00:00", "s").astype(np.int64))  # date of the table
SECONDS_PER_MONTH = 2_629_800
ID_BYTES = 10
MOST_IDS = (2**31 - 1) // ID_BYTES  # an Arrow string array has 32-bit byte offsets


class CustomerBlock:
    """Values of consecutive customers, before missing values are applied; each is computed on first access.

    `seed` is 0 to 2**64 - 1; `start` is the first customer.
    """

    def __init__(self, population: Population, seed: int, start: int, n_rows: int) -> None:
        self.xp, self.draws = population.xp, Draws(population, seed, start, n_rows)
        self._codes: dict[str, Array] = {}

    def codes(self, name: str) -> Array:
        """Return the codes of a categorical column: int32, shape (n_rows,)."""
        if name not in self._codes:
            codes = self.draws.code(name)
            if CATEGORICALS[name][0] == SERVICE:
                codes = self.xp.where(self.codes("InternetService") == 2, 2, codes)
            elif name == "MultipleLines":
                codes = self.xp.where(self.codes("PhoneService") == 0, 2, codes)
            self._codes[name] = codes
        return self._codes[name]

    @cached_property
    def city(self) -> Array:
        return self.draws.code("City")

    @cached_property
    def tenure(self) -> Array:
        """Months since signing up, 0 to 72: int64."""
        cell = self.codes("Contract") * CELLS + self.draws.cell("tenure")
        return self.xp.take(self.draws.population.levels("tenure"), cell).astype("int64")

    @cached_property
    def signup(self) -> Array:
        """Seconds since 1970, int64: a random day in the month given by `tenure`."""
        into_month = (self.draws.number("signup day") * SECONDS_PER_MONTH).astype("int64")
        day = (SNAPSHOT - (self.tenure + 1) * SECONDS_PER_MONTH + into_month) // DAY_SECONDS - 1
        return day * DAY_SECONDS + (self.draws.number("signup hour") * 3600).astype("int64")

    @cached_property
    def monthly_charges(self) -> Array:
        services = sum(self.draws.effect(name, self.codes(name)) for name in PRICES)
        return self._rounded(services + self.draws.number("MonthlyCharges"), 100)

    @cached_property
    def total_charges(self) -> Array:
        months = self.xp.maximum(self.tenure, 1)
        return self._rounded(self.monthly_charges * months * self.draws.number("TotalCharges"), 100)

    @cached_property
    def usage(self) -> Array:
        usage = self.draws.number("DataUsageGB")
        return self._rounded(self.xp.where(self._is_offline, usage * OFFLINE, usage), 1000)

    @cached_property
    def support_calls(self) -> Array:
        return self.draws.code("SupportCalls").astype("int64")

    @cached_property
    def age(self) -> Array:
        return self.xp.rint(self.draws.number("Age"))

    def missing(self, name: str) -> Array | None:
        """Return the mask of missing values of a column, bool; None if it has none."""
        if name not in MISSING:
            return None
        missing = self.draws.is_missing(name)
        # As in the Telco dataset: nothing is charged before the end of the first month.
        return missing | (self.tenure == 0) if name == "TotalCharges" else missing

    @cached_property
    def log_odds(self) -> Array:
        """True log-odds of churn, an upper bound for the quality of any model."""
        draws, xp = self.draws, self.xp
        odds: Any = sum(draws.effect(f"{name} odds", self.codes(name)) for name in ODDS)
        z: Array = odds + draws.effect("tenure", self.tenure) + 0.016 * (self.monthly_charges - 60)
        z += draws.effect("SupportCalls", self.support_calls)
        offline, online = (draws.number("DataUsageGB", f"DataUsageGB odds{where}") for where in (" offline", ""))
        z += xp.where(self._is_offline, offline, online)
        z += draws.number("signup hour", "signup hour odds")
        z -= 0.25 * ((self.codes("Partner") == 1) & (self.age > 50))
        z += 0.4 * self.draws.is_missing("Age")  # a missing age is informative, so an indicator helps
        z += draws.effect("City", self.city * N_CONTRACTS + self.codes("Contract"))
        return z

    @cached_property
    def churned(self) -> Array:
        """Codes of Churn: int32. A logistic random number is below the log-odds with the churn probability."""
        return (self.draws.number("Churn") < self.log_odds).astype("int32")

    @property
    def _is_offline(self) -> Array:
        uses_fiber: Array = self.codes("InternetService") == 2
        return uses_fiber

    def _rounded(self, values: Array, parts: int) -> Array:
        return self.xp.rint(values * parts) / parts


def customer_ids(seed: int, start: int, n_rows: int) -> pa.StringArray:
    """Return identifiers such as ``7590-VHVEG``, unique in a table of up to 10**4 * 26**5 rows; at most `MOST_IDS`."""
    lap, place = np.divmod(np.arange(start, start + n_rows, dtype=np.int64), 26**5)
    letters = (place * 7_654_321 + seed % 26**5) % 26**5  # a bijection, as 7,654,321 and 26 are coprime
    digits = (place * 7_919 % 10_007 + lap) % 10**4
    text: Any = np.empty((n_rows, ID_BYTES), np.uint8)
    for k in range(4):
        digits, text[:, 3 - k] = digits // 10, ord("0") + digits % 10
    text[:, 4] = ord("-")
    for k in range(5):
        letters, text[:, 9 - k] = letters // 26, ord("A") + letters % 26
    ends = np.arange(0, text.size + 1, ID_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(n_rows, pa.py_buffer(ends), pa.py_buffer(text))


DICTIONARY = pa.dictionary(pa.int32(), pa.string())
ID = "customerID"
SCHEMA = pa.schema(
    [(ID, pa.string()), ("tenure", pa.int64())]
    + [(name, pa.float64()) for name in ("MonthlyCharges", "TotalCharges", "DataUsageGB")]
    + [("SupportCalls", pa.int64()), ("Age", pa.float64())]
    + [(name, DICTIONARY) for name in (*CATEGORICALS, "City")]
    + [("signup_ts", pa.timestamp("us")), ("Churn", DICTIONARY)]
)

LEVELS = {name: pa.array(levels) for name, (levels, _) in CATEGORICALS.items()}
LEVELS |= {"City": pa.array([f"city_{i:04d}" for i in range(N_CITIES)]), "Churn": pa.array(NO_YES)}

_NUMBERS = {
    "tenure": "tenure",
    "MonthlyCharges": "monthly_charges",
    "TotalCharges": "total_charges",
    "DataUsageGB": "usage",
    "SupportCalls": "support_calls",
    "Age": "age",
}


def values(block: CustomerBlock, name: str) -> tuple[Array, Array | None]:
    """Return a column of a block, in its memory, and the mask of missing rows (None if there are none).

    Codes of `LEVELS` are int32, numbers have the types of `SCHEMA`, times are int64 microseconds. Identifiers are not
    included, as they are strings.
    """
    if name in CATEGORICALS:
        return block.codes(name), None
    match name:
        case "City":
            return block.city, None
        case "Churn":
            return block.churned, None
        case "signup_ts":
            return block.signup * 1_000_000, None
    return getattr(block, _NUMBERS[name]), block.missing(name)


def column(block: CustomerBlock, name: str) -> pa.Array:
    """Return a column of a block on the host as an Arrow array with the type of `SCHEMA`."""
    found, missing = values(block, name)
    if name in LEVELS:
        return pa.DictionaryArray.from_arrays(found, LEVELS[name])
    kind = SCHEMA.field(name).type
    return pa.array(found, mask=missing).cast(kind)
