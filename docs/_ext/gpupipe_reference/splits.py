"""The page of splits: each kind with its rows, drawn by splitting twelve rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from gpupipe.splits import Fold, Split, make_splits
from gpupipe_reference.markdown import code, fence, inline, page, table

N_ROWS = 12
CLASSES = np.array([0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1])
GROUPS = np.array(list("aabbbccddeef"))
DAYS = np.array([3, 1, 2, 5, 4, 6, 8, 7, 9, 12, 11, 10])
PARTS = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2])
LEVELS = ("train", "test", "other")

# title, settings, description, a row of the table to show above the folds
KINDS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (
        "Random hold-out",
        {"test_size": 0.25},
        "The default. For classification, each class has the same share of the test rows (`stratify`).",
        "class",
    ),
    (
        "Groups",
        {"group": "customer", "test_size": 0.25},
        "All rows with the same value stay on one side, so a model is tested on customers that it has never seen.",
        "customer",
    ),
    (
        "Time",
        {"time": "day", "test_size": 0.25},
        "The latest rows are the test rows. Rows of the same time stay together.",
        "day",
    ),
    (
        "Time, with a gap",
        {"time": "day", "test_size": 0.25, "gap": "2"},
        "Rows in the `gap` before the first test row are not used: their targets are not known yet when the model is "
        "trained. A duration such as `7d`, a number in the unit of a numeric column, or a number of rows: `500 rows`.",
        "day",
    ),
    (
        "Groups and time",
        {"group": "customer", "time": "day", "test_size": 0.4},
        "For customers, shops, machines: the test rows are later and of other groups. If most groups have rows "
        "throughout, the groups to test are drawn at random, and two kinds of rows are not used: earlier ones of the "
        "drawn groups, and later ones of the others. The stage `split` of the log counts them.",
        "customer",
    ),
    (
        "New groups",
        {"group": "customer", "time": "day", "test_size": 0.4, "purge": "test"},
        "Later rows of groups that have no training row: how are new groups predicted? `purge: train`, for short "
        "groups such as sessions or days, tests all later rows instead, and trains on none of their groups.",
        "customer",
    ),
    (
        "Time, from a cut-off",
        {"time": "day", "cutoff": "9"},
        "The test rows are those at or after the cut-off: a date, or a number for a numeric column.",
        "day",
    ),
    (
        "A column of the table",
        {"column": {"name": "part", "train": ["train"], "test": ["test"]}},
        "A split that is part of the table. Rows with other levels are in neither part.",
        "part",
    ),
    (
        "Cross-validation",
        {"cv": 3},
        "Folds as in scikit-learn's `StratifiedKFold`, or `KFold` for regression; every row is tested once.",
        "class",
    ),
    (
        "Cross-validation by group",
        {"cv": 3, "group": "customer"},
        "As in `GroupKFold`: a group is tested in one fold.",
        "customer",
    ),
    (
        "Cross-validation over time",
        {"cv": 3, "time": "day"},
        "As in `TimeSeriesSplit`: each fold trains on earlier rows and tests on the rows after them.",
        "day",
    ),
    (
        "Cross-validation over time, with a rolling window",
        {"cv": 3, "time": "day", "window": "rolling"},
        "Each fold trains on as many rows as the first; `window: 90d` on those of that time. So does the exported "
        "model, on the latest rows.",
        "day",
    ),
    (
        "Repeated cross-validation",
        {"cv": 3, "repeats": 2},
        "The metrics are means over all folds; `predictions.parquet` and the curves are those of the first repeat.",
        "class",
    ),
)


def split_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the page by its path in the reference."""
    sections = [_section(*kind, links) for kind in KINDS]
    text = page(
        "reference-splits",
        "Splits",
        "The test rows have no part in anything that is learned: statistics of features, models, thresholds and "
        "calibration come from the training rows. All settings: [`split`](#config-split).",
        "The tables below split the same twelve rows: ■ test, □ train.",
        *sections,
    )
    return {"splits.md": text}


def _section(title: str, given: dict[str, Any], text: str, shown: str, links: Mapping[str, str]) -> str:
    settings = Split.model_validate(given)
    folds = make_splits(
        settings,
        N_ROWS,
        CLASSES if settings.stratify is not False else None,
        GROUPS if settings.group else None,
        DAYS.astype(float) if settings.time else None,
        parts=(PARTS, LEVELS) if settings.column else None,
    )
    columns = {"class": CLASSES, "customer": GROUPS, "day": DAYS, "part": np.array(LEVELS)[PARTS]}
    values = columns[shown]
    order = np.argsort(DAYS) if settings.time else np.arange(N_ROWS)
    rows = [[f"fold {i}" if len(folds) > 1 else "split", *_marks(fold, order)] for i, fold in enumerate(folds, 1)]
    written = yaml.safe_dump({"split": given}, default_flow_style=None, sort_keys=False, width=100)
    return "\n\n".join(
        [
            f"## {title}",
            inline(text, links),
            fence(written, "yaml"),
            table([code(shown), *map(str, values[order])], rows),
        ]
    )


def _marks(fold: Fold, order: Any) -> list[str]:
    return ["■" if fold.test[row] else "□" if fold.train[row] else " " for row in order]
