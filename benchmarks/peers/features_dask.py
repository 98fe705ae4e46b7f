"""Features of `benchmarks.cluster.workload` in dask.dataframe, with codes and lookup tables in each partition.

Strings are read as categories, which Dask makes known once; results that are used twice are persisted on the workers.
Medians are Dask's approximate ones; the split is its `random_split`, which is not stratified.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, TARGET, TEST_SHARE, TIME
from benchmarks.cluster.workload import BUCKETS, CATEGORIES, CROSSES, document, summary
from benchmarks.peers.target_rates import smoothed_rates
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array

if TYPE_CHECKING:
    import dask.dataframe as dd

Fitted = dict[str, Any]

TEXTS = [*CATEGORIES, CITY, TARGET]
RATES = (CITY, "city_contract")
BLOCK = "64MB"


def features(file: Path, clock: StageClock, n_workers: int, memory: str | None) -> dict[str, Any]:
    """Compute the features with workers of one thread each."""
    from distributed import Client, LocalCluster, wait

    with ExitStack() as stack:
        with clock("start"):
            cluster = LocalCluster(
                n_workers=n_workers, threads_per_worker=1, memory_limit=memory or "auto", dashboard_address=None
            )
            stack.enter_context(cluster)
            stack.enter_context(Client(cluster))
        with clock("read"):
            frame = _read(file)
            wait(frame)
        with clock("split"):
            train, test = (
                part.map_partitions(_with_codes).persist()
                for part in frame.random_split([1 - TEST_SHARE, TEST_SHARE], random_state=0)
            )
            wait([train, test])
            del frame
        with clock("fit"):
            fitted = _fit(train)
        with clock("transform"):
            X, X_test = (
                part.map_partitions(_matrix, fitted, own, meta=_empty(fitted)).persist()
                for part, own in ((train, True), (test, False))
            )
            wait([X, X_test])
        return {**_told(X), "names": _names(fitted["levels"]), "test_rows": len(X_test)}


def _read(file: Path) -> dd.DataFrame:
    import dask.dataframe as dd

    if file.suffix == ".parquet":
        frame = dd.read_parquet(file, columns=[*NUMBERS, *TEXTS, TIME]).astype(dict.fromkeys(TEXTS, "category"))
    else:
        frame = dd.read_csv(
            file,
            usecols=[*NUMBERS, *TEXTS, TIME],
            dtype=dict.fromkeys(NUMBERS, "float64") | dict.fromkeys(TEXTS, "category"),
            parse_dates=[TIME],
            blocksize=BLOCK,
        )
    return frame.persist().categorize(columns=TEXTS, index=False).persist()


def _with_codes(part: pd.DataFrame) -> pd.DataFrame:
    """Return a partition with a numeric target, folds, and codes of the columns with target rates."""
    fold = pd.util.hash_array(np.arange(len(part)) + np.uint64(len(part))) % FOLDS
    made: dict[str, Any] = {name: _bucket(part, other) for name, other in CROSSES.items()}
    return part.assign(
        y=(part[TARGET] == "Yes").astype("float64"),
        fold=fold.astype("int8"),
        **{f"{CITY}_code": part[CITY].cat.codes.astype("int32"), **made},
    )


def _bucket(part: pd.DataFrame, other: str) -> Array:
    """Return the bucket of each row's pair of levels; each distinct pair is hashed once."""
    first, second = part[CITY].cat, part[other].cat
    pairs = [f"{a}|{b}" for a in first.categories for b in second.categories]
    lookup = (pd.util.hash_array(np.array(pairs or [""], object)) % BUCKETS).astype("int32")
    return lookup[first.codes.to_numpy().astype("int32") * len(second.categories) + second.codes.to_numpy()]


def _fit(train: dd.DataFrame) -> Fitted:
    import dask

    columns = {name: f"{CITY}_code" if name == CITY else name for name in RATES}
    medians = train[list(NUMBERS)].quantile(0.5).compute()
    filled = train[list(NUMBERS)].fillna(medians.to_dict())
    bent = filled.assign(**{name: np.log1p(filled[name]) for name in SKEWED})
    groups = [train.groupby(["fold", column]).y.agg(["count", "sum"]) for column in columns.values()]
    counts = train["city_payment"].value_counts()
    means, deviations, counted, *grouped = dask.compute(bent.mean(), bent.std(ddof=0), counts, *groups)
    levels = {name: list(train[name].cat.categories) for name in CATEGORIES}
    sizes = [len(train[CITY].cat.categories), BUCKETS]
    frequency = counted.reindex(range(BUCKETS), fill_value=0).to_numpy() / counted.sum()
    return {
        "numbers": [(name, medians[name], means[name], deviations[name]) for name in NUMBERS],
        "levels": levels, "frequency": frequency.astype("float32"), "columns": columns,
        "rates": {name: _rates(g, size) for name, g, size in zip(RATES, grouped, sizes, strict=True)},
    }  # fmt: skip


def _rates(grouped: pd.DataFrame, n_levels: int) -> tuple[Array, Array]:
    """Return the smoothed rate of each level without each fold, shape (folds, levels), and over all rows."""
    every = pd.MultiIndex.from_product([range(FOLDS), range(n_levels)])
    table = grouped.reindex(every, fill_value=0)
    n, total = (table[name].to_numpy().reshape(FOLDS, n_levels) for name in ("count", "sum"))
    own, full = smoothed_rates(n, total)
    return own.astype("float32"), full.astype("float32")


def _matrix(part: pd.DataFrame, fitted: Fitted, own: bool) -> pd.DataFrame:
    """Return the features of a partition; with `own`, for training rows, rates exclude the row's own fold."""
    names = _names(fitted["levels"])
    X, j = np.empty((len(part), len(names)), "float32", order="F"), 0
    for name, median, mean, deviation in fitted["numbers"]:
        x = part[name].fillna(median).to_numpy()
        X[:, j], j = ((np.log1p(x) if name in SKEWED else x) - mean) / deviation, j + 1
    for name, levels in fitted["levels"].items():
        codes = part[name].cat.codes.to_numpy()
        for level in range(len(levels)):
            X[:, j], j = codes == level, j + 1
    for name in RATES:
        codes, (of_others, full) = part[fitted["columns"][name]].to_numpy(), fitted["rates"][name]
        X[:, j], j = of_others[part["fold"].to_numpy(), codes] if own else full[codes], j + 1
    X[:, j], j = fitted["frequency"][part["city_payment"].to_numpy()], j + 1
    for unit, period in PERIODS.items():
        angle = getattr(part[TIME].dt, unit).to_numpy() * (2 * np.pi / period)
        X[:, j] = np.sin(angle)
        X[:, j + 1] = np.cos(angle)
        j = j + 2
    return pd.DataFrame(X, columns=names, copy=False)


def _names(levels: dict[str, list[str]]) -> list[str]:
    one_hot = [f"{name}={level}" for name, own in levels.items() for level in own]
    cyclic = [f"{TIME}_{unit}_{side}" for unit in PERIODS for side in ("sin", "cos")]
    return [*NUMBERS, *one_hot, *RATES, "city_payment", *cyclic]


def _empty(fitted: Fitted) -> pd.DataFrame:
    return pd.DataFrame({name: np.empty(0, "float32") for name in _names(fitted["levels"])})


def _told(X: dd.DataFrame) -> dict[str, Any]:
    import dask

    parts = [dask.delayed(_summary)(part) for part in X.to_delayed()]
    return document(dask.compute(*parts))


def _summary(part: pd.DataFrame) -> Any:
    return summary(part.to_numpy(), 0)
