"""Metrics estimated without labels, compared with the true ones and with NannyML's CBPE on the same rows.

    GPUPIPE_DATA=DIR python -m benchmarks.late_labels --folder DIR [--seeds N] [--size N] [--peer PYTHON]

A model is trained on a part of each table. Other rows, in random order, are twelve months, of which the last three have
no labels. Scenarios: none; inputs that shift from the first month on (labelled) or after the last label (late); and
targets that lose their relation to the inputs, at once (sudden) or more each month (gradual), from one of the last five
months with labels on. --peer is a Python with NannyML, in a separate environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

METRICS = ("roc_auc", "accuracy", "f1", "log_loss")
SCENARIOS = ("none", "labelled", "late", "sudden", "gradual")
N_MONTHS, N_LATE = 12, 3
PEER = Path(__file__).parent / "peers" / "nannyml_cbpe.py"


@dataclass(frozen=True)
class LateTable:
    """Table with a binary target; `tilt` is the log weight of its rows in a month whose inputs have shifted."""

    name: str
    n_train: int
    load: Callable[[Path], Any]
    tilt: Callable[[Any], Any]


def _bank(folder: Path) -> Any:
    import pandas as pd

    frame = pd.read_csv(folder / "bank-marketing" / "bank-full.csv", sep=";").drop(columns="duration")
    return frame.assign(y=(frame["y"] == "yes").astype(int))


def _credit(folder: Path) -> Any:
    import pandas as pd

    frame = pd.read_csv(folder / "credit-default" / "UCI_Credit_Card.csv")
    return frame.rename(columns={"default.payment.next.month": "y"})


def _adult(folder: Path) -> Any:
    import pandas as pd

    names = "age workclass weight education years marital occupation relation race sex gain loss hours country y"
    frame = pd.read_csv(folder / "adult-income" / "adult.data", names=names.split(), skipinitialspace=True)
    return frame.assign(y=(frame["y"] == ">50K").astype(int))


TABLES = (
    LateTable("bank-marketing", 15_000, _bank, lambda f: 1.0 * (f["housing"] == "no") + 0.7 * (f["age"] > 45)),
    LateTable("credit-default", 12_000, _credit, lambda f: 1.5 * (f["PAY_0"] > 0) + 0.7 * (f["LIMIT_BAL"] < 100_000)),
    LateTable("adult-income", 10_000, _adult, lambda f: 1.0 * (f["age"] > 40) + 0.7 * (f["hours"] > 42)),
)


def months(rest: Any, table: LateTable, scenario: str, seed: int, size: int) -> Any:
    """Return rows of twelve months, with the column ``seen``, drawn without replacement from scored rows."""
    import numpy as np
    import pandas as pd

    random, left = np.random.default_rng(seed), rest
    parts = []
    for month in range(N_MONTHS):
        shift = {"labelled": month / (N_MONTHS - 1), "late": float(month >= N_MONTHS - N_LATE)}.get(scenario, 0.0)
        weights = np.exp(shift * table.tilt(left).to_numpy(float))
        chosen = random.choice(len(left), size, replace=False, p=weights / weights.sum())
        parts.append(left.iloc[chosen].assign(seen=pd.Timestamp(2024, 1 + month, 10)))
        left = left.drop(left.index[chosen])
    frame = pd.concat(parts, ignore_index=True)
    if scenario in ("sudden", "gradual"):
        onset, of_row = int(random.integers(4, 9)), np.arange(len(frame)) // size
        strength = (of_row >= onset) * (1.0 if scenario == "sudden" else (of_row - onset + 1) / (N_MONTHS - onset))
        changed = (frame["p"] > frame["p"].median()) & (random.random(len(frame)) < 0.6 * strength)
        frame.loc[changed, "y"] = (random.random(int(changed.sum())) < frame["y"].mean()).astype(int)
    return frame


def estimate(model: Any, frame: Any) -> list[dict[str, Any]]:
    """Return a record for each metric of each month without labels: its estimate, interval and true value."""
    data = frame.drop(columns="p")
    late = data["seen"] >= data["seen"].drop_duplicates().sort_values().iloc[-N_LATE]
    truth = model.evaluate(data, by="month:seen").periods[-N_LATE:]
    found = model.evaluate(data.assign(y=data["y"].astype("Int64").mask(late)), by="month:seen").periods[-N_LATE:]
    records = []
    for ahead, (period, real) in enumerate(zip(found, truth, strict=True), 1):
        for name in METRICS:
            own = period.by_name.get(name)
            known = own is not None and own.value is not None
            ends = {"value": own.value, "low": own.low, "high": own.high} if own is not None else {}
            records.append({"metric": name, "ahead": ahead, "known": known, **ends, "real": real.by_name[name].value})
    return records


def summarize(records: Any) -> str:
    """Return Markdown: for each table, scenario and metric the mean absolute error and coverage of each tool."""
    records = records.assign(
        error=(records["value"] - records["real"]).abs(),
        inside=((records["low"] <= records["real"]) & (records["real"] <= records["high"])).where(records["known"]),
        width=records["high"] - records["low"],
    )
    records["honest"] = (~records["known"] | records["inside"].eq(True)).astype(float)
    lines = ["| table | scenario | metric | tool | estimates | error | coverage | width | not called good |"]
    lines.append("| --- " * 9 + "|")
    for key, own in records.groupby(["table", "scenario", "metric", "tool"], sort=False):
        shares = f"{own['error'].mean():.4f} | {own['inside'].astype(float).mean():.2f} | {own['width'].mean():.3f}"
        said = f"{int(own['known'].sum())} of {len(own)}"
        lines.append(f"| {' | '.join(map(str, key))} | {said} | {shares} | {own['honest'].mean():.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables, print the summary and write the records."""
    import pandas as pd

    import gpupipe as gp

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for models, rows and records")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--size", type=int, default=1_000, help="rows of a month")
    parser.add_argument("--tables", nargs="*", default=[table.name for table in TABLES])
    parser.add_argument("--scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--peer", help="a Python with NannyML")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    for table in (table for table in TABLES if table.name in given.tables):
        frame = table.load(Path(os.environ["GPUPIPE_DATA"])).sample(frac=1, random_state=1).reset_index(drop=True)
        rest = frame[table.n_train :]
        pipeline = gp.Pipeline(frame[: table.n_train], target="y", models=["xgboost"], device="cpu")
        pipeline.run(given.folder / table.name, quiet=True)
        model = gp.load_model(given.folder / table.name, "cpu")
        rest = rest.assign(p=model.predict_proba(rest.drop(columns="y"))[:, 1])
        for scenario in given.scenarios:
            for seed in range(given.seeds):
                rows = months(rest, table, scenario, seed, given.size)
                key = {"table": table.name, "scenario": scenario, "seed": seed}
                records += [{**key, "tool": "gpupipe", **each} for each in estimate(model, rows)]
                rows[["p", "y", "seen"]].assign(**key).to_parquet(
                    given.folder / f"{table.name}_{scenario}_{seed}.parquet"
                )
    found = pd.DataFrame(records)
    if given.peer:
        files = sorted(map(str, given.folder.glob("*_*_*.parquet")))
        environment = {**os.environ, "NML_DISABLE_USAGE_LOGGING": "1"}
        output = given.folder / "nannyml.json"
        subprocess.run([given.peer, "-W", "ignore", str(PEER), str(output), *files], check=True, env=environment)
        found = pd.concat([found, pd.read_json(output).assign(known=True)], ignore_index=True)
    found.to_json(given.folder / "records.json", orient="records", indent=1)
    print(summarize(found))


if __name__ == "__main__":
    main()
