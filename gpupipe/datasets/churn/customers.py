"""Customers of the churn generator, in blocks of rows: random draws, values and typed columns.

A value depends on the seed and its row only, not on the number of rows, the blocks, the other columns or the processor:
all operations round identically everywhere.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import number_array, text_array
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
    Codes,
    Flags,
    Floats,
    Ints,
    curve,
    effects,
    levels,
)
from gpupipe.units import DAY_SECONDS
from gpupipe_kernels.draws.philox import fill

# Draws that need only 16 bits: four of them share a word, in this order.
SMALL = (*CATEGORICALS, "City", "tenure", "SupportCalls", *(f"{name} missing" for name in MISSING))
PER_WORD = 4


SNAPSHOT = int(np.datetime64("2025-01-01T00:00:00", "s").astype(np.int64))  # date of the table
SECONDS_PER_MONTH = 2_629_800
ID_BYTES = 10
MOST_IDS = (2**31 - 1) // ID_BYTES  # an Arrow string array has 32-bit byte offsets


class CustomerBlock:
    """Values of consecutive customers, before missing values are applied; each is computed on first access.

    `seed` is 0 to 2**64 - 1; `start` is the first customer.
    """

    def __init__(self, seed: int, start: int, n_rows: int) -> None:
        self.seed = seed
        self.start = start
        self.n_rows = n_rows
        self._words: dict[str, Ints] = {}
        self._codes: dict[str, Codes] = {}

    def words(self, stream: str) -> Ints:
        """Return 64 random bits per row, as int64; users must not depend on the sign."""
        if stream not in self._words:
            bits = np.empty(self.n_rows, np.uint64)
            fill(bits, self.seed, zlib.crc32(stream.encode()) << 32, self.start)
            self._words[stream] = bits.view(np.int64)
        return self._words[stream]

    def cell(self, name: str) -> Ints:
        """Return a uniform random integer in ``[0, CELLS)`` per row."""
        word, part = divmod(SMALL.index(name), PER_WORD)
        return (self.words(f"small {word}") >> (16 * part)) & (CELLS - 1)

    def number(self, stream: str, of: str = "") -> Floats:
        """Return random numbers with the distribution of a curve.

        Two curves of one random `stream` are functions of the same random number. `of` is the name of the curve, by
        default that of the stream.
        """
        begin, rise = curve(of or stream)
        words = self.words(stream)
        at = (words >> BITS) & (KNOTS - 1)
        into = (words & ((1 << BITS) - 1)).astype(np.float64)
        # Separate operations: a fused multiply-add would round only once.
        values: Floats = begin[at] + rise[at] * into
        return values

    def is_missing(self, name: str) -> Flags:
        """Return the mask of missing values of a column."""
        return self.cell(f"{name} missing") < round(MISSING[name] * CELLS)

    def codes(self, name: str) -> Codes:
        """Return the codes of a categorical column except Churn."""
        if name not in self._codes:
            codes = levels(name)[self.cell(name)]
            if name != "City" and CATEGORICALS[name][0] == SERVICE:
                codes = np.where(self.codes("InternetService") == 2, 2, codes)
            elif name == "MultipleLines":
                codes = np.where(self.codes("PhoneService") == 0, 2, codes)
            self._codes[name] = codes
        return self._codes[name]

    @cached_property
    def tenure(self) -> Ints:
        """Months since signing up, 0 to 72."""
        cell = self.codes("Contract") * CELLS + self.cell("tenure")
        months: Ints = levels("tenure")[cell].astype(np.int64)
        return months

    @cached_property
    def signup(self) -> Ints:
        """Seconds since 1970: a random day in the month given by `tenure`."""
        into_month = (self.number("signup day") * SECONDS_PER_MONTH).astype(np.int64)
        day = (SNAPSHOT - (self.tenure + 1) * SECONDS_PER_MONTH + into_month) // DAY_SECONDS - 1
        return day * DAY_SECONDS + (self.number("signup hour") * 3600).astype(np.int64)

    @cached_property
    def monthly_charges(self) -> Floats:
        services = sum(effects(name)[self.codes(name)] for name in PRICES)
        return _rounded(services + self.number("MonthlyCharges"), 100)

    @cached_property
    def total_charges(self) -> Floats:
        months = np.maximum(self.tenure, 1)
        return _rounded(self.monthly_charges * months * self.number("TotalCharges"), 100)

    @cached_property
    def usage(self) -> Floats:
        usage = self.number("DataUsageGB")
        return _rounded(np.where(self._is_offline, usage * OFFLINE, usage), 1000)

    @cached_property
    def support_calls(self) -> Ints:
        return levels("SupportCalls")[self.cell("SupportCalls")].astype(np.int64)

    @cached_property
    def age(self) -> Floats:
        return np.rint(self.number("Age"))

    def missing(self, name: str) -> Flags | None:
        """Return the mask of missing values of a column; None if it has none."""
        if name not in MISSING:
            return None
        missing = self.is_missing(name)
        # As in the Telco dataset: nothing is charged before the end of the first month.
        return missing | (self.tenure == 0) if name == "TotalCharges" else missing

    @cached_property
    def log_odds(self) -> Floats:
        """True log-odds of churn, an upper bound for the quality of any model."""
        odds: Any = sum(effects(f"{name} odds")[self.codes(name)] for name in ODDS)
        z: Floats = odds + effects("tenure")[self.tenure] + 0.016 * (self.monthly_charges - 60)
        z += effects("SupportCalls")[self.support_calls]
        offline, online = (self.number("DataUsageGB", f"DataUsageGB odds{where}") for where in (" offline", ""))
        z += np.where(self._is_offline, offline, online)
        z += self.number("signup hour", "signup hour odds")
        z -= 0.25 * ((self.codes("Partner") == 1) & (self.age > 50))
        z += 0.4 * self.is_missing("Age")  # a missing age is informative, so an indicator helps
        z += effects("City")[self.codes("City").astype(np.int64) * N_CONTRACTS + self.codes("Contract")]
        return z

    @cached_property
    def churned(self) -> Codes:
        """Codes of Churn. A logistic random number is below the log-odds with the churn probability."""
        return (self.number("Churn") < self.log_odds).astype(np.int32)

    @property
    def _is_offline(self) -> Flags:
        uses_fiber: Flags = self.codes("InternetService") == 2
        return uses_fiber


def _rounded(values: Floats, parts: int) -> Floats:
    return np.rint(values * parts) / parts


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

LEVELS = {name: text_array(texts) for name, (texts, _) in CATEGORICALS.items()}
LEVELS |= {"City": text_array(f"city_{i:04d}" for i in range(N_CITIES)), "Churn": text_array(NO_YES)}

# Columns that are neither codes nor identifiers, and the properties of a block that hold them.
_VALUES = {
    "tenure": "tenure",
    "MonthlyCharges": "monthly_charges",
    "TotalCharges": "total_charges",
    "DataUsageGB": "usage",
    "SupportCalls": "support_calls",
    "Age": "age",
    "signup_ts": "signup",
}


def column(block: CustomerBlock, name: str) -> pa.Array:
    """Return a column of a block with the type of `SCHEMA`."""
    if name == ID:
        return customer_ids(block.seed, block.start, block.n_rows)
    if name in LEVELS:
        codes = block.churned if name == "Churn" else block.codes(name)
        return pa.DictionaryArray.from_arrays(number_array(codes), LEVELS[name])
    unit = 1_000_000 if name == "signup_ts" else 1  # seconds to microseconds
    values = number_array(getattr(block, _VALUES[name]) * unit, block.missing(name))
    return values.cast(SCHEMA.field(name).type)
