"""Comparison of a device table with a host table."""

from __future__ import annotations

import numpy as np

from gpupipe.backends import Backend
from gpupipe.table.blocks import Table


def table_difference(host: Table, device: Table, backend: Backend) -> str:
    """Return the first difference between two tables, compared bit by bit; ``""`` if there is none.

    Parameters
    ----------
    host, device : Table
    backend : Backend
        The device backend.
    """
    if (host.schema, host.n_rows) != (device.schema, device.n_rows):
        return f"the schemas differ: {_schema_difference(host, device)}"
    for name in host.places:
        a, b = host.column(name), backend.to_host(device.column(name))
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype != b.dtype or not same.all():
            at = int(np.argmin(same))
            return f"{name}: row {at} is {b[at]} ({b.dtype}) on the device, {a[at]} ({a.dtype}) on the host"
    for name, texts in host.texts.items():
        there = device.texts[name]  # on a device no more is known of texts
        if (len(texts), texts.null_count) != (len(there), there.null_count):
            return f"{name}: {there.null_count} texts are missing on the device, {texts.null_count} on the host"
    return ""


def _schema_difference(host: Table, device: Table) -> str:
    if host.n_rows != device.n_rows:
        return f"{device.n_rows} rows on the device, {host.n_rows} on the host"
    theirs = {column.name: column for column in device.schema}
    for column in host.schema:
        if theirs.get(column.name) != column:
            return f"{theirs.get(column.name)} on the device, {column} on the host"
    return "other columns, or another order"
