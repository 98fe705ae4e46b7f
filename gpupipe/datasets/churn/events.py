"""Events of the churn generator: customer activity in the year before the snapshot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.datasets.churn.customers import DICTIONARY, SNAPSHOT, CustomerBlock
from gpupipe.datasets.churn.population import Codes, Floats, Ints, generator
from gpupipe.units import DAY_SECONDS

BLOCK_ROWS = 16_384
EVENT_TYPES = ("login", "usage", "payment", "support", "plan_change", "complaint")
_LOGIN, _USAGE, _PAYMENT, _SUPPORT, _PLAN_CHANGE, _COMPLAINT = range(6)
WINDOW_DAYS = 365
MEAN_EVENTS = 12.0  # for a customer of the whole year who did not churn and is not a heavy user
FADING = 3.0  # the activity of a churner decays to exp(-FADING) of its initial value

SCHEMA = pa.schema(
    [
        ("customerID", DICTIONARY),
        ("event_ts", pa.timestamp("us")),
        ("event_type", DICTIONARY),
        ("amount", pa.float64()),
    ]
)


class EventBlock(CustomerBlock):
    """`BLOCK_ROWS` customers, whose events are drawn together from NumPy's distributions.

    `index` is the number of the block; its first row is ``index * BLOCK_ROWS``.
    """

    def __init__(self, seed: int, index: int) -> None:
        super().__init__(seed, index * BLOCK_ROWS, BLOCK_ROWS)
        self.index = index

    def rng(self, stream: str) -> np.random.Generator:
        """Return a generator for one stream of this block, independent of earlier draws."""
        return generator(self.seed, stream, self.index)


def _counts(block: EventBlock, days: Floats) -> Ints:
    """Return the number of events per customer: Poisson with a Gamma-distributed rate; one in 200 is a heavy user."""
    rate = block.rng("event rate").gamma(2.0, MEAN_EVENTS / 2.0, BLOCK_ROWS)
    rate *= np.where(block.rng("event heavy").random(BLOCK_ROWS) < 0.005, 15.0, 1.0)
    rate *= np.where(block.churned == 1, (1.0 - np.exp(-FADING)) / FADING, 1.0)
    return block.rng("event count").poisson(rate * days / WINDOW_DAYS)


def _types(block: EventBlock, customer: Ints) -> Codes:
    """Return the type of each event; frequent support callers have more support events, churners more complaints."""
    support = np.minimum(0.03 * block.support_calls, 0.3)[customer]
    complaint = np.where(block.churned == 1, 0.02, 0.002)[customer]
    u = block.rng("event type").random(len(customer))
    rest = np.searchsorted([0.45, 0.80, 0.99], block.rng("event other type").random(len(customer)), side="right")
    other = np.array([_LOGIN, _USAGE, _PAYMENT, _PLAN_CHANGE], np.int32)[rest]
    return np.where(u < support, _SUPPORT, np.where(u > 1.0 - complaint, _COMPLAINT, other)).astype(np.int32)


def _amounts(block: EventBlock, customer: Ints, types: Codes) -> pa.Array:
    """Return money paid or gigabytes used; null for events without an amount and for 2 % of the others."""
    noise = block.rng("event amount").lognormal(0.0, 0.3, len(customer))
    paid, used = block.monthly_charges[customer], block.usage[customer] / 30.0
    amount = np.round(np.where(types == _PAYMENT, paid, used) * noise, 2)
    lost = block.rng("event amount missing").random(len(customer)) < 0.02
    return pa.array(amount, mask=lost | ((types != _PAYMENT) & (types != _USAGE)))


def event_columns(block: EventBlock) -> tuple[Ints, dict[str, pa.Array]]:
    """Return the events of a block, ordered by customer and time.

    The array, ascending int64, is the index of the customer in the block, 0 to ``BLOCK_ROWS - 1``; the mapping has the
    columns of `SCHEMA` except the first.
    """
    since = np.maximum(block.signup, SNAPSHOT - WINDOW_DAYS * DAY_SECONDS)
    seconds = (SNAPSHOT - since).astype(np.float64)
    customer = np.repeat(np.arange(BLOCK_ROWS, dtype=np.int64), _counts(block, seconds / DAY_SECONDS))
    u = block.rng("event time").random(len(customer))
    fading = -np.log1p(-u * (1.0 - np.exp(-FADING))) / FADING  # exponential distribution truncated at 1
    part = np.where(block.churned[customer] == 1, fading, u)
    # One integer key for customer and time: sorting it is many times faster than lexsort.
    key = np.sort(customer << 32 | (part * seconds[customer]).astype(np.int64))
    times = since[customer] + (key & (2**32 - 1))
    types = _types(block, customer)
    return customer, {
        "event_ts": pa.array(times * 1_000_000).cast(pa.timestamp("us")),
        "event_type": pa.DictionaryArray.from_arrays(types, pa.array(EVENT_TYPES)),
        "amount": _amounts(block, customer, types),
    }
