"""Monthly replay: a model that stays, one that continues with each month, and one that is trained again on all rows.

    GPUPIPE_DATA=DIR python -m benchmarks.second_month --folder DIR [--tables-dir DIR] [--models NAME,...] [TABLE ...]

The first months train a model. Then each month updates it in both ways, and the month after it is the test. The model
that continues gets the table of all months, of which it learns the rows that it has not learned before, and the
challenger takes over if the verdict is to promote it. Mean score over the months, mean seconds of
`gpupipe.update_model`, the verdicts, and how many of them advise to train again. flight-delays and incomes
(by year) are Parquet files that `benchmarks.answers.sources` writes to --tables-dir; the months of cdnow are cut-offs,
with the customers' histories before them and whether they order in the next 30 days.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

DAYS = 30
NEWEST = 0.1  # share of a month that an update compares on


@dataclass(frozen=True)
class ReplayTable:
    """Table with the column ``when``; `n_first` is the number of periods that train the first model."""

    name: str
    target: str
    n_first: int
    load: Callable[[Path, Path], pd.DataFrame]
    period: str = "M"
    is_binary: bool = False


def _bike(data: Path, _tables: Path) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_csv(data / "bike-sharing" / "bike.csv")
    days = pd.to_datetime(frame["dteday"], format="%m/%d/%Y")
    frame = frame.assign(when=days + pd.to_timedelta(frame["hr"], unit="h"))
    return frame.drop(columns=["instant", "dteday", "yr", "casual", "registered"], errors="ignore")


def _cdnow(data: Path, _tables: Path) -> pd.DataFrame:
    import pandas as pd

    from benchmarks.answers.histories import cdnow_at

    cuts = pd.date_range("1997-04-01", "1998-06-01", freq="MS")
    histories = (cdnow_at(data, cut, cut + pd.Timedelta(days=DAYS)).assign(when=cut) for cut in cuts)
    return pd.concat(histories, ignore_index=True)


def _flights(_data: Path, tables: Path) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_parquet(tables / "flight-delays.parquet")
    days = pd.Timestamp("2013-01-01") + pd.to_timedelta(frame["elapsed"], unit="D")
    return frame.assign(when=days).drop(columns="elapsed")


def _incomes(_data: Path, tables: Path) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_parquet(tables / "incomes.parquet")
    return frame.assign(when=pd.to_datetime(frame["elapsed"].astype(int), format="%Y")).drop(
        columns=["elapsed", "year"]
    )


TABLES = (
    ReplayTable("bike-sharing", "cnt", 12, _bike),
    ReplayTable("cdnow", "churned", 6, _cdnow, is_binary=True),
    ReplayTable("flight-delays", "arr_delay", 3, _flights),
    ReplayTable("incomes", "realrinc", 10, _incomes, period="Y"),
)


def replay(table: ReplayTable, model: str, data: Path, tables: Path, folder: Path) -> dict[str, Any]:
    """Return the mean scores and seconds of the three ways, with runs in the new directory `folder`."""
    import numpy as np

    import gpupipe as gp

    frame = table.load(data, tables).sort_values("when", kind="stable", ignore_index=True)
    periods = frame["when"].dt.to_period(table.period)
    names = sorted(periods.unique())
    folder.mkdir(parents=True)

    stops = [int((periods <= name).sum()) for name in names]

    def write(first: int, stop: int) -> Path:
        path = folder / f"{first}_{stop}.parquet"
        frame[first:stop].to_parquet(path)
        return path

    first = write(0, stops[table.n_first - 1])
    options: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}}
    split = {"time": "when", "test_size": 0.1}
    run = gp.Pipeline(first, target=table.target, models=[model], split=split, **options).run(
        folder / "run", quiet=True
    )
    continued = run.path
    found, verdicts = list[list[float]](), list[str]()
    n_advised = 0
    for month in range(table.n_first, len(names) - 1):
        old, new = write(0, stops[month - 1]), write(stops[month - 1], stops[month])
        whole = write(0, stops[month])
        start = time.perf_counter()
        own = gp.update_model(continued, whole, output=folder / f"continued_{month}", newest=NEWEST)
        middle = time.perf_counter()
        again = gp.update_model(run.path, new, old, output=folder / f"again_{month}", newest=NEWEST)
        seconds = [middle - start, time.perf_counter() - middle]
        verdicts.append(own.verdict)
        n_advised += any("--with OLD" in reason for reason in own.reasons)
        if own.verdict == "promote":
            continued = own.run.path
        test = frame[periods == names[month + 1]]
        models = (run.model, gp.load_model(continued), again.run.model)
        found.append([*(_score(table, each, test) for each in models), *seconds])
        print(names[month + 1], *(f"{value:.4f}" for value in found[-1]), own.verdict, flush=True)
    means = np.mean(found, axis=0)
    ways = ("never", "continued", "again", "continued_s", "again_s")
    shares = {name: verdicts.count(name) for name in ("promote", "keep", "refuse")}
    row = {"table": table.name, "model": model, "n_periods": len(found), "n_advised": n_advised}
    return {**row, **dict(zip(ways, means.tolist(), strict=True)), **shares}


def _score(table: ReplayTable, model: Any, test: pd.DataFrame) -> float:
    """Return ROC AUC, or R2."""
    from sklearn.metrics import r2_score, roc_auc_score

    if table.is_binary:
        return float(roc_auc_score(test[table.target], model.predict_proba(test)[:, 1]))
    return float(r2_score(test[table.target], model.predict(test)))


def main(options: Sequence[str] | None = None) -> None:
    """Replay the tables, and print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: all")
    parser.add_argument("--folder", type=Path, required=True, help="new directory for the runs")
    parser.add_argument("--tables-dir", type=Path, default=Path("tables"))
    parser.add_argument("--models", default="xgboost,lightgbm,linear")
    arguments = parser.parse_args(options)
    data = Path(os.environ["GPUPIPE_DATA"])
    rows = []
    for table in TABLES:
        if arguments.tables and table.name not in arguments.tables:
            continue
        for name in arguments.models.split(","):
            linear = "logistic_regression" if table.is_binary else "ridge"
            model = linear if name == "linear" else name
            folder = arguments.folder / f"{table.name}_{model}"
            rows.append(replay(table, model, data, arguments.tables_dir, folder))
            print(rows[-1], flush=True)
    columns = "table | model | periods | never | continued | again | continued, s | again, s | promote, keep, refuse"
    print(f"| {columns} | advised |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |")
    for row in rows:
        scores = " | ".join(f"{row[way]:.4f}" for way in ("never", "continued", "again"))
        seconds = f"{row['continued_s']:.2f} | {row['again_s']:.2f}"
        verdicts = f"{row['promote']}, {row['keep']}, {row['refuse']}"
        cells = (row["table"], row["model"], row["n_periods"], scores, seconds, verdicts, row["n_advised"])
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
