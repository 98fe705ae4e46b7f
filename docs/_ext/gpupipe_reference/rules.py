"""The page of column rules: each rule with the columns it applies to, and the report of a table that violates some."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import yaml

from gpupipe.backends import choose
from gpupipe.rules import ColumnRules, describe_violations
from gpupipe.rules.check import find_violations
from gpupipe.rules.settings import ABLE, ORDER
from gpupipe.table.encode import encode
from gpupipe_reference.markdown import code, fence, inline, page, table
from gpupipe_reference.op_example import frame_table
from gpupipe_reference.schema_text import definition_of

WRITTEN = """
tenure: {dtype: int, nulls: false, range: [0, 100]}
contract: {set: [monthly, yearly]}
customer_id: {unique: true}
"""
ROWS = {
    "customer_id": ["c1", "c2", "c2", "c4"],
    "tenure": [12, None, 140, 7],
    "contract": ["monthly", "yearly", "weekly", "monthly"],
}


def rule_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the page by its path in the reference."""
    fields = definition_of(ColumnRules.__name__)["properties"]
    rows = [
        [f"[{code(rule)}](#config-data-{rule})", inline(fields[rule]["description"]), _kinds(rule)] for rule in ORDER
    ]
    text = page(
        "reference-rules",
        "Rules of columns",
        "Rules under `data:` are enforced when a model is trained, and stored in the model, which enforces them when "
        "it predicts. Rules of the target are not stored. All settings: [`data`](#config-data).",
        table(["rule", "meaning", "columns"], rows),
        "Nulls violate only `nulls: false`. A table that violates rules is exit code 5 (`SchemaError`), and all "
        "violations are reported at once; `otherwise: warn` logs a warning instead.",
        "## Example",
        fence("data:\n" + "".join(f"  {line}\n" for line in WRITTEN.strip().splitlines()), "yaml"),
        "A table:",
        frame_table(pd.DataFrame(ROWS).astype({"tenure": "Int64"}).astype(object)),
        "The violations that are reported:",
        fence(violations(), "text"),
    )
    return {"rules.md": text}


def _kinds(rule: str) -> str:
    return ", ".join(ABLE[rule]) if rule in ABLE else "numeric, datetime" if rule == "range" else "all"


def violations() -> str:
    """Return the report on the example's table."""
    backend = choose("cpu")
    encoded = encode(pa.Table.from_pydict(ROWS), backend, {})
    rules = {name: [ColumnRules(**given)] for name, given in yaml.safe_load(WRITTEN).items()}
    return "\n".join(describe_violations(find_violations(encoded, rules, backend), lambda row: f"row {row}"))
