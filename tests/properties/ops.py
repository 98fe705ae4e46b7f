"""Hypothesis strategies for lists of feature ops that suit a table, with drawn settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.properties.tables import Drawn

Draw = Callable[[st.SearchStrategy[Any]], Any]
Settings = dict[str, Any]

SHARES = st.tuples(st.sampled_from([0.0, 0.01, 0.25, 0.5]), st.sampled_from([0.6, 0.75, 0.99, 1.0]))
NUMBERS = st.sampled_from([-1e6, -1.0, 0.0, 0.1, 3.0, 1e9])
UNITS = st.sampled_from(["days", "hours", "minutes", "seconds"])
SPANS = st.sampled_from(["1us", "90min", "30d", "400w"])
PARTS = ["minute", "hour", "weekday", "day", "month", "day_of_year"]
DATE_PARTS = ["year", "quarter", "month", "day", "day_of_year", "weekday", "hour", "minute", "second", "is_weekend",
              "is_month_start", "is_month_end", "elapsed_days"]  # fmt: skip
REDUCED = ["sum", "mean", "min", "max", "std", "count"]


class Columns:
    """The columns that ops may still select, by kind, as the ops so far have left them.

    Attributes
    ----------
    read : list of str
        Numbers as they were read.
    numbers, codes, booleans, times, texts : list of str
    """

    def __init__(self, table: Drawn) -> None:
        def of(kind: str) -> list[str]:
            return [name for name, found in table.kinds.items() if found == kind]

        self.table = table
        self.numbers, self.codes, self.booleans = of("numeric"), of("categorical"), of("boolean")
        self.times, self.texts, self.read = of("datetime"), of("text"), of("numeric")
        self.events = {kind: list(of(kind)) for kind in ("numeric", "categorical", "boolean", "datetime")}
        self.n_made = 0

    def name(self) -> str:
        """Return a name that no column has."""
        self.n_made += 1
        return f"made {self.n_made}"

    def change(self, *names: str) -> None:
        """Remember that numbers are no longer as they were read."""
        self.read = [name for name in self.read if name not in names]


def some(draw: Draw, names: list[str], least: int = 1, most: int = 3) -> list[str] | None:
    """Return some of `names`; None where there are too few."""
    if len(names) < max(least, 1):
        return None
    return draw(st.lists(st.sampled_from(names), min_size=least, max_size=most, unique=True))


def numeric(settings: dict[str, st.SearchStrategy[Any]]) -> Callable[[Draw, Columns], Settings | None]:
    """Return a strategy for an op that changes numeric columns in place or adds its result as new columns."""

    def make(draw: Draw, columns: Columns) -> Settings | None:
        chosen = some(draw, columns.numbers)
        found = {name: draw(values) for name, values in settings.items()}
        if chosen and draw(st.sampled_from([False, False, True])):
            found["as"] = f"{columns.name()} of {{column}}"
            columns.numbers = columns.numbers + [found["as"].replace("{column}", name) for name in chosen]
        else:
            columns.change(*chosen or ())
        return {"columns": chosen} | found if chosen else None

    return make


def coded(settings: dict[str, st.SearchStrategy[Any]]) -> Callable[[Draw, Columns], Settings | None]:
    """Return the way to draw an op that makes columns of categories."""

    def make(draw: Draw, columns: Columns) -> Settings | None:
        chosen = some(draw, columns.codes)
        return {"columns": chosen} | {name: draw(values) for name, values in settings.items()} if chosen else None

    return make


def impute(draw: Draw, columns: Columns) -> Settings | None:
    strategy = draw(st.sampled_from(["median", "mean", "most_frequent", "constant"]))
    chosen = some(draw, columns.numbers + (columns.codes if strategy == "most_frequent" else []))
    settings = {"columns": chosen, "strategy": strategy, "indicator": draw(st.booleans())}
    return settings | ({"value": draw(NUMBERS)} if strategy == "constant" else {}) if chosen else None


def clip(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.numbers)
    columns.change(*chosen or ())
    bounds = draw(st.sampled_from([{"lower": 0.0}, {"upper": 2.0}, {"lower": -1.0, "upper": 1e9}, {}]))
    return {"columns": chosen} | (bounds or {"quantiles": draw(SHARES)}) if chosen else None


def bucketize(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.read)
    if chosen is None:
        return None
    settings: Settings = {"columns": chosen}
    if draw(st.sampled_from([False, False, True])):
        settings["as"] = f"{columns.name()} of {{column}}"
        columns.codes = columns.codes + [settings["as"].replace("{column}", name) for name in chosen]
    else:
        columns.change(*chosen)
        columns.numbers = [name for name in columns.numbers if name not in chosen]
        columns.codes = columns.codes + chosen
    if draw(st.booleans()):
        return settings | {"edges": sorted(draw(st.sets(NUMBERS, min_size=1)))}
    strategy = draw(st.sampled_from(["uniform", "quantile", "kmeans"]))
    return settings | {"bins": draw(st.sampled_from([2, 5, 20])), "strategy": strategy}


def hash_bucket(draw: Draw, columns: Columns) -> Settings | None:
    plain = [name for name in columns.codes if name in columns.events["categorical"]]
    chosen = some(draw, plain)
    return {"columns": chosen, "buckets": draw(st.sampled_from([2, 7, 300]))} if chosen else None


def cross(draw: Draw, columns: Columns) -> Settings | None:
    plain = [name for name in columns.codes + columns.booleans if name in columns.table.columns]
    chosen = some(draw, plain, 2)
    if chosen is None:
        return None
    name, buckets = columns.name(), draw(st.sampled_from([None, 5]))
    columns.codes = [*columns.codes, name]
    return {"columns": chosen, "as": name, "buckets": buckets}


def grouped(draw: Draw, columns: Columns) -> Settings | None:
    plain = [name for name in columns.codes + columns.booleans if name in columns.table.columns]
    by, numbers = some(draw, plain, 1, 2), some(draw, columns.numbers)
    if by is None or not numbers:
        return None
    stats = draw(st.lists(st.sampled_from(STATS), min_size=1, unique=True))
    return {"columns": numbers, "by": by, "stats": stats, "prefix": columns.name()}


def datetime_parts(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.times)
    return (
        {"columns": chosen, "parts": draw(st.lists(st.sampled_from(DATE_PARTS), min_size=1, unique=True))}
        | draw(st.sampled_from([{}, {"holidays": ["2024-01-01", "2025-12-25"]}]))
        | zone(draw)
        if chosen
        else None
    )


def zone(draw: Draw) -> Settings:
    return draw(st.sampled_from([{}, {"zone": "Europe/Berlin"}, {"zone": "-03:30"}]))


def cyclic(draw: Draw, columns: Columns) -> Settings | None:
    if columns.times and draw(st.booleans()):
        parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, unique=True))
        return {"columns": some(draw, columns.times), "parts": parts} | zone(draw)
    chosen = some(draw, columns.numbers)
    return {"columns": chosen, "period": draw(st.sampled_from([0.1, 24.0, 1e6]))} if chosen else None


def points(draw: Draw, columns: Columns) -> Settings | None:
    degrees = [name for name in columns.read if name in ("normal", "float32", "ties", "zeros", "constant", "all_null")]
    if not degrees:
        return None
    ends = draw(st.lists(st.sampled_from(degrees), min_size=4, max_size=4))
    return {"from": ends[:2], "to": ends[2:], "as": columns.name()}


def bearing(draw: Draw, columns: Columns) -> Settings | None:
    found = points(draw, columns)
    return found and found | {"cyclic": draw(st.booleans())}


def arithmetic(draw: Draw, columns: Columns) -> Settings | None:
    kind = draw(st.sampled_from(["ratio", "difference", "product", "sum"]))
    if kind == "difference" and len(columns.times) > 1 and draw(st.booleans()):
        chosen = some(draw, columns.times, 2, 2)
        return {kind: chosen, "unit": draw(UNITS), "as": columns.name()}
    chosen = some(draw, columns.numbers + columns.booleans, 2, 2 if kind in ("ratio", "difference") else 3)
    name = columns.name()
    columns.numbers = columns.numbers + ([name] if chosen else [])
    return {kind: chosen, "as": name} if chosen else None


def expression(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.numbers + columns.booleans, 2, 2)
    if chosen is None:
        return None
    a, b = (f"`{name}`" for name in chosen)
    forms = ["{a} / (1 + {b})", "where({a} > {b}, {a}, 0.5) - 1", "log(abs({a})) * {b} ** 2", "isnull({a}) and not {b}"]
    name = columns.name()
    columns.numbers = [*columns.numbers, name]
    return {name: draw(st.sampled_from(forms)).format(a=a, b=b)}


def polynomial(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.numbers, 2, 2)
    return {"columns": chosen, "degree": 2, "interaction_only": draw(st.booleans())} if chosen else None


def drop(draw: Draw, columns: Columns) -> Settings | None:
    everything = [*columns.numbers, *columns.codes, *columns.booleans, *columns.times, *columns.texts]
    chosen = some(draw, everything, 1, 1)
    for kind in ("numbers", "codes", "booleans", "times", "texts", "read"):
        setattr(columns, kind, [name for name in getattr(columns, kind) if name not in (chosen or ())])
    return {"columns": chosen} if chosen else None


def kernel(draw: Draw, columns: Columns) -> Settings | None:
    chosen = some(draw, columns.numbers + columns.booleans, 1, 1)
    return (
        {"use": "tests/features/kernels_of_the_tests.py:scaled", "inputs": chosen, "as": columns.name()}
        if chosen
        else None
    )


def text(settings: dict[str, st.SearchStrategy[Any]]) -> Callable[[Draw, Columns], Settings | None]:
    """Return the way to draw an op on texts."""

    def make(draw: Draw, columns: Columns) -> Settings | None:
        chosen = some(
            draw, [name for name in columns.table.columns if columns.table.kinds[name] in ("text", "categorical")]
        )
        found = {name: draw(values) for name, values in settings.items()}
        return {"columns": chosen, "prefix": columns.name()} | found if chosen else None

    return make


def of_lists(settings: dict[str, st.SearchStrategy[Any]]) -> Callable[[Draw, Columns], Settings | None]:
    """Return the way to draw an op on lists."""

    def make(draw: Draw, columns: Columns) -> Settings | None:
        chosen = some(draw, [name for name, kind in columns.table.kinds.items() if kind == "list"])
        found = {name: draw(values) for name, values in settings.items()}
        return {"columns": chosen, "prefix": columns.name()} | found if chosen else None

    return make


def keyed(
    more: Callable[[Draw, Columns, dict[str, list[str]]], Settings],
) -> Callable[[Draw, Columns], Settings | None]:
    """Return the way to draw an op over the history of a key, in the order of a time."""

    def make(draw: Draw, columns: Columns) -> Settings | None:
        events = columns.events
        keys = [
            name for name in columns.table.columns if name in ("plan", "city", "own", "odd", "count", "int8", "flag")
        ]
        if not events["datetime"] or not keys:
            return None
        settings = {"key": some(draw, keys, 1, 2), "time": draw(st.sampled_from(events["datetime"]))}
        settings["prefix"] = columns.name()
        cut = draw(st.sampled_from([None, None, "2020-06-01", *events["datetime"]]))
        settings |= {"as_of": cut} if cut is not None else {"current": draw(st.booleans())}
        return settings | more(draw, columns, events)

    return make


def measured(draw: Draw, events: dict[str, list[str]], least: int = 0) -> list[str]:
    """Return some numeric or boolean columns of a history."""
    return some(draw, events["numeric"] + events["boolean"], least, 2) or []


def aggregated(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    functions = st.lists(st.sampled_from([*REDUCED, "nunique", "first", "last"]), min_size=1, unique=True)
    asked: Settings = {name: draw(functions) for name in measured(draw, events)}
    if events["categorical"] and draw(st.booleans()):
        asked[events["categorical"][0]] = ["count", "nunique", "first", "last"]
    return {"columns": asked, "gaps": draw(st.sampled_from([[], ["mean", "std"]]))}


def earlier(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    return {"columns": measured(draw, events, 1), "periods": draw(st.sampled_from([[1], [2, 3]]))}


def rolled(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    windows = draw(st.sampled_from([[3], ["90min", 2], ["400w"]]))
    return {
        "columns": measured(draw, events),
        "functions": draw(st.sampled_from([["mean"], REDUCED])),
        "windows": windows,
    }


def decayed(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    return {"columns": measured(draw, events), "half_life": draw(SPANS)}


def ended(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    chosen = some(draw, events["numeric"] + events["boolean"] + events["categorical"], most=2)
    return {"columns": chosen or [], "size": draw(st.sampled_from([1, 3]))}


def since(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    return {"columns": measured(draw, events), "of": ["last", "first"], "unit": draw(UNITS)}


def spent(draw: Draw, columns: Columns, events: dict[str, list[str]]) -> Settings:
    return {"amount": draw(st.sampled_from([None, *events["numeric"]])), "unit": draw(UNITS)}


FOLDS = 3  # a row belongs to one fold, so all target encodings of a list have the same number
ROW_WISE: dict[str, Callable[[Draw, Columns], Settings | None]] = {
    "auto": lambda draw, columns: {"columns": "@all"},
    "impute": impute,
    "standardize": numeric({"with_mean": st.booleans(), "with_std": st.booleans()}),
    "min_max": numeric({}),
    "robust_scale": numeric({"quantiles": SHARES}),
    "log1p": numeric({}),
    "null_if": numeric({"values": st.lists(NUMBERS, min_size=1, max_size=3)}),
    "yeo_johnson": numeric({"standardize": st.booleans()}),
    "clip": clip,
    "bucketize": bucketize,
    "encode": coded({"max_one_hot": st.sampled_from([1, 64]), "max_levels": st.sampled_from([1, 250]),
                     "folds": st.just(FOLDS)}),
    "one_hot": coded({"max_categories": st.sampled_from([None, 1, 5]), "min_frequency": st.sampled_from([None, 2])}),
    "categorify": coded({"max_categories": st.sampled_from([None, 1, 5]), "min_frequency": st.sampled_from([None, 2]),
                         "order": st.sampled_from(["text", "frequency"])}),
    "frequency_encode": coded({}),
    "target_encode": coded({"folds": st.just(FOLDS), "smoothing": st.sampled_from([0.0, 1.5, 20.0, "auto"])}),
    "hash_bucket": hash_bucket,
    "cross": cross,
    "group_stats": grouped,
    "datetime_parts": datetime_parts,
    "cyclic": cyclic,
    "haversine": points,
    "bearing": bearing,
    "arithmetic": arithmetic,
    "polynomial": polynomial,
    "expression": expression,
    "kernel": kernel,
    "drop": drop,
}  # fmt: skip
TEXTS: dict[str, Callable[[Draw, Columns], Settings | None]] = {
    "text_hash": text({"buckets": st.sampled_from([2, 5]), "analyzer": st.sampled_from(["word", "char", "char_wb"]),
                       "ngrams": st.sampled_from([(1, 1), (1, 3)]),
                       "value": st.sampled_from(["count", "binary", "log"])}),
    "text_vectors": text({"n_components": st.sampled_from([1, 3]), "analyzer": st.sampled_from(["auto", "word"]),
                          "size": st.just(1024)}),
    "text_counts": text({"patterns": st.sampled_from([{}, {"odd": "[|é]"}])}),
    "parse_number": text({"units": st.sampled_from(["", "%", {"k": 1000.0}]), "decimal": st.sampled_from([".", ","])}),
}  # fmt: skip
LISTS: dict[str, Callable[[Draw, Columns], Settings | None]] = {
    "multi_hot": of_lists({"max_levels": st.sampled_from([None, 2]), "min_frequency": st.sampled_from([None, 2, 0.1])}),
    "list_stats": of_lists({}),
    "list_hash": of_lists({"buckets": st.sampled_from([2, 5]), "value": st.sampled_from(["count", "binary"])}),
    "list_columns": of_lists({"size": st.sampled_from([1, 3]), "last": st.booleans()}),
    "bag_ids": of_lists({"max_levels": st.sampled_from([None, 2]), "buckets": st.sampled_from([None, 3])}),
}
KEYED: dict[str, Callable[[Draw, Columns], Settings | None]] = {
    "aggregate": keyed(aggregated),
    "lag": keyed(earlier),
    "difference": keyed(earlier),
    "rolling": keyed(rolled),
    "decay": keyed(decayed),
    "sessions": keyed(lambda draw, columns, events: {"gap": draw(SPANS), "unit": draw(UNITS)}),
    "time_since": keyed(since),
    "rfm": keyed(spent),
    "last_events": keyed(ended),
}
EVERY = ROW_WISE | TEXTS | LISTS | KEYED
# Ops that sum floats: the last digits may depend on the order of rows.
STATS = ["mean", "std", "min", "max", "count", "difference", "ratio", "z_score"]
ADDS_UP = ("auto", "impute", "standardize", "yeo_johnson", "encode", "target_encode", "group_stats")


def listed(
    draw: Draw, table: Drawn, makers: dict[str, Callable[[Draw, Columns], Settings | None]], n_made: int = 0
) -> list[Settings]:
    """Return up to six ops that suit a table, without those that do not. `n_made` names are already used."""
    columns, ops = Columns(table), []
    columns.n_made = n_made
    for name in draw(st.lists(st.sampled_from(sorted(makers)), min_size=1, max_size=6)):
        if name == "target_encode" and table.target == "none":
            continue
        settings = makers[name](draw, columns)
        if name == "text_vectors" and settings is not None and table.target != "none":
            settings |= {"target": draw(st.booleans()), "folds": FOLDS}
        nothing = name in ("lag", "difference", "last_events") and settings is not None and not settings["columns"]
        if settings is not None and not nothing:
            ops.append({name: settings})
            if name == "last_events":
                made = [f"{settings['prefix']}{each}_last_{settings['size']}" for each in settings["columns"]]
                ops.append({"list_stats": {"columns": made, "prefix": columns.name()}})
    return ops


@st.composite
def cases(draw: Draw, tables: st.SearchStrategy[Drawn], makers: Any = None) -> tuple[Drawn, list[Settings], str]:
    """Return a table, ops that suit it, and a view."""
    table = draw(tables)
    return table, listed(draw, table, EVERY if makers is None else makers), draw(st.sampled_from(["dense", "codes"]))
