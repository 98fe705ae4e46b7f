"""Seeded generator of realistic churn data of any size: customers, their events and their churn labels.

>>> customers(3, columns=["tenure", "Contract", "Churn"]).column_names
['tenure', 'Contract', 'Churn']

Row i is a function of (seed, i) only: it does not depend on the number of rows, the batches or the selected columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gpupipe.datasets.churn.customers import DICTIONARY, MOST_IDS, SCHEMA, SNAPSHOT, CustomerBlock, column, customer_ids
from gpupipe.datasets.churn.population import Codes, Floats, Ints, generator
from gpupipe.errors import ConfigError, SchemaError, did_you_mean
from gpupipe.units import DAY_SECONDS

BLOCK_ROWS = 16_384
EVENT_TYPES = ("login", "usage", "payment", "support", "plan_change", "complaint")
_LOGIN, _USAGE, _PAYMENT, _SUPPORT, _PLAN_CHANGE, _COMPLAINT = range(6)
WINDOW_DAYS = 365
MEAN_EVENTS = 12.0  # for a customer of the whole year who did not churn and is not a heavy user
FADING = 3.0  # the activity of a churner decays to exp(-FADING) of its initial value
EVENT_SCHEMA = pa.schema(
    [
        ("customerID", DICTIONARY),
        ("event_ts", pa.timestamp("us")),
        ("event_type", DICTIONARY),
        ("amount", pa.float64()),
    ]
)

BATCH_ROWS = 262_144
MAX_ROWS = 2**31 - 1  # limit of the int32 indices of an Arrow dictionary
MAX_START = 10**11  # identifiers repeat from here on


def customers(rows: int, seed: int = 7, columns: Sequence[str] | None = None, start: int = 0) -> pa.Table:
    """Return customers `start` to ``start + rows - 1`` of the table for `seed`.

    25 columns: customerID; six numbers, four of them with nulls and two strongly skewed; fifteen categoricals of 2 to 6
    levels, some of them rare; City (2,000 levels, Zipf-like); signup_ts; and Churn, ``"Yes"`` for about 30 %.

    `rows` is 0 to 2**31 - 1, `seed` is 0 to 2**64 - 1, and `columns` are in the order of the result, by default all.
    Categorical columns are dictionaries (int32 indices, string values), with the same levels in every batch. Raise
    SchemaError if a column does not exist; ConfigError if `rows`, `seed` or `start` is out of range.
    """
    schema = _schema(columns, SCHEMA)
    _require_in_range(rows, seed, start)
    return pa.Table.from_batches(_blocks(rows, seed, schema, start), schema=schema)


def customer_batches(
    rows: int,
    seed: int = 7,
    batch_rows: int = BATCH_ROWS,
    columns: Sequence[str] | None = None,
    start: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `customers` in batches of `batch_rows` (the last may be smaller), in constant memory."""
    if batch_rows < 1:
        raise ConfigError(f"expected batch_rows of at least 1, got {batch_rows}", fix="use batches of at least one row")
    schema = _schema(columns, SCHEMA)
    _require_in_range(rows, seed, start)
    for first in range(start, start + rows, batch_rows):
        yield pa.concat_batches(_blocks(min(batch_rows, start + rows - first), seed, schema, first))


def events(rows: int, seed: int = 7, columns: Sequence[str] | None = None, start: int = 0) -> pa.Table:
    """Return the events of ``customers(rows, seed, start=start)`` in the year before the snapshot.

    Columns: customerID (a dictionary of these customers' ids), event_ts, event_type (six levels, two of them rare) and
    amount (money for payments, gigabytes for usage, else null; some are missing). Ordered by customer, then by time. A
    customer has about nine events; a few customers have hundreds. The events of churners become rarer with time.

    `rows` is the number of customers, at most `MOST_IDS`; there are about nine times as many events. Other arguments
    are as for `customers`. Raise SchemaError or ConfigError as `customers` does.
    """
    names = _schema(columns, EVENT_SCHEMA).names
    _require_in_range(rows, seed, start, MOST_IDS)
    ids = customer_ids(seed, start, rows)
    return pa.Table.from_batches(_event_blocks(rows, seed, start, ids), schema=EVENT_SCHEMA).select(names)


def write(path: str | Path, rows: int, seed: int = 7) -> None:
    """Write `customers` to a Parquet or CSV file with plain strings, in batches and constant memory.

    Raise ConfigError if `path` does not end in ``.parquet`` or ``.csv``.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"cannot write churn data as {path.suffix!r}", where=str(path), fix="use .parquet or .csv")
    is_csv = path.suffix == ".csv"
    schema = _plain(SCHEMA, time_unit="s" if is_csv else "us")  # seconds: avoids trailing zeros in the text
    writer_class = pa.csv.CSVWriter if is_csv else pa.parquet.ParquetWriter
    with writer_class(path, schema) as writer:
        for batch in customer_batches(rows, seed):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def _schema(columns: Sequence[str] | None, full: pa.Schema) -> pa.Schema:
    if columns is None:
        return full
    for name in columns:
        if name not in full.names:
            hint = did_you_mean(name, full.names) or f"the columns are {', '.join(full.names)}"
            raise SchemaError(f"generated churn data has no column {name!r}", fix=hint)
    return pa.schema([full.field(name) for name in columns])


def _plain(schema: pa.Schema, time_unit: str) -> pa.Schema:
    """Return `schema` with strings for dictionaries and times in `time_unit`."""
    types = {pa.types.is_dictionary: pa.string(), pa.types.is_timestamp: pa.timestamp(time_unit)}
    plain = ((f.name, next((new for is_old, new in types.items() if is_old(f.type)), f.type)) for f in schema)
    return pa.schema(list(plain))


def _require_in_range(rows: int, seed: int, start: int, most_rows: int = MAX_ROWS) -> None:
    for what, value, limit in (("rows", rows, most_rows), ("start", start, MAX_START), ("seed", seed, 2**64 - 1)):
        if not 0 <= value <= limit:
            raise ConfigError(f"expected {what} from 0 to {limit:,}, got {value:,}", fix="use a number in this range")


def _blocks(rows: int, seed: int, schema: pa.Schema, start: int) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows in blocks whose arrays fit into the CPU caches."""
    for first in range(start, start + rows, BLOCK_ROWS):
        block = CustomerBlock(seed, first, min(BLOCK_ROWS, start + rows - first))
        yield pa.RecordBatch.from_arrays([column(block, name) for name in schema.names], schema=schema)


def _event_blocks(rows: int, seed: int, start: int, ids: pa.Array) -> Iterator[pa.RecordBatch]:
    stop = start + rows
    for block in (EventBlock(seed, i) for i in range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))):
        customer, columns = event_columns(block)
        customer = customer + block.index * BLOCK_ROWS
        begin, end = np.searchsorted(customer, [start, stop])
        who = pa.DictionaryArray.from_arrays((customer[begin:end] - start).astype(np.int32), ids)
        rest = [values.slice(begin, end - begin) for values in columns.values()]
        yield pa.RecordBatch.from_arrays([who, *rest], schema=EVENT_SCHEMA)


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
    columns of `EVENT_SCHEMA` except the first.
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
