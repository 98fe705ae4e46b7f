"""Rank of a contender among the methods of TALENT, from its published tables of results.

TALENT (Ye et al., "A closer look at deep learning methods on tabular datasets", arXiv 2407.00956) has the accuracy or
the RMSE of 30 methods on 300 tables: means of 15 seeds, after a search of 100 trials for each method, on one split of
64 % training, 16 % validation and 20 % test rows. Its test rows are not published; those here are the folds of this
benchmark, also 20 %. So a rank is that of a score within the spread of a split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.answers.records import CellRecord

if TYPE_CHECKING:
    import pandas as pd

FILES = ("cls_bin.md", "cls_multi.md", "regression.md")
# Names of the tables that have as many rows and features there as here.
TALENT_NAMES = {
    "adult-income": "adult",
    "bank-churn": "shrutime",
    "credit-default": "default_of_credit_card_clients",
    "diamonds": "Diamonds",
    "german-credit": "credit-g",
    "keel-chess": "kr-vs-kp",
    "keel-contraceptive": "contraceptive_method_choice",
    "keel-letter": "letter",
    "keel-magic": "MagicTelescope",
    "keel-optdigits": "optdigits",
    "keel-phoneme": "phoneme",
    "keel-satimage": "satimage",
    "keel-spambase": "spambase",
    "keel-splice": "splice",
    "orange-churn": "Telecom_Churn_Dataset",
    "telco-churn": "telco-customer-churn",
}


@dataclass(frozen=True)
class PublishedRank:
    """Rank of a score among the published ones of a table, from 1, with the best of these; `is_rmse` or accuracy."""

    table: str
    score: float
    n_folds: int
    rank: float
    n_methods: int
    best_method: str
    best_score: float
    is_rmse: bool


def read_published(folder: Path) -> dict[str, tuple[dict[str, float], bool]]:
    """Return the score of each method by table, and whether it is an RMSE, from the folder ``results`` of TALENT.

    Raises
    ------
    ValueError
        If a row has another number of cells than the header.
    """
    found = {}
    for name in FILES:
        lines = (folder / name).read_text(encoding="utf8").splitlines()
        header, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if "|" in line)
        for row in rows[1:]:  # without the rule below the header
            if len(row) != len(header):
                message = f"{name}: expected {len(header)} cells, found {len(row)} in the row of {row[0]}"
                raise ValueError(message)
            means = (cell.strip("*").partition("+")[0] for cell in row[1:])
            scores = {method: float(mean) for method, mean in zip(header[1:], means, strict=True) if _is_number(mean)}
            found[row[0]] = scores, name == "regression.md"
    return found


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("e", "", 1).replace("-", "").isdecimal()


def published_score(predictions: pd.DataFrame, truth: pd.Series, metric: str) -> float:
    """Return the accuracy of predictions in the format of `exchange`, or their RMSE if the metric is ``r2``."""
    from sklearn.metrics import accuracy_score, root_mean_squared_error

    if metric == "r2":
        return float(root_mean_squared_error(truth, predictions.iloc[:, 0]))
    return float(accuracy_score(truth, predictions.idxmax(axis="columns")))


def rank_published(
    records: Sequence[CellRecord], label: str, published: Mapping[str, tuple[Mapping[str, float], bool]]
) -> list[PublishedRank]:
    """Return the ranks of a contender, as in ``gpupipe-best@60``, on the tables that both have.

    Its score is the mean over the folds that were run. Equal scores share the mean of their ranks. The method
    ``dummy`` does not count.
    """
    found = []
    for table, name in TALENT_NAMES.items():
        own = [each.published for each in records if each.table == table and each.label == label]
        scores = [score for score in own if score is not None]
        if not scores or len(scores) < len(own):
            continue
        methods, is_rmse = published[name]
        others = {method: score for method, score in methods.items() if method != "dummy"}
        sign = -1 if is_rmse else 1
        score = sum(scores) / len(scores)
        n_better = sum(sign * other > sign * score for other in others.values())
        n_equal = sum(other == score for other in others.values())
        best = max(others, key=lambda method: sign * others[method])
        rank = 1 + n_better + n_equal / 2
        found.append(PublishedRank(table, score, len(scores), rank, len(others), best, others[best], is_rmse))
    return found


def render_ranks(ranks: Sequence[PublishedRank]) -> str:
    """Return the ranks as a table in Markdown, with their mean."""
    lines = ["| table | metric | score | folds | rank | best published |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for each in ranks:
        metric, digits = ("RMSE", 1) if each.is_rmse else ("accuracy", 4)
        best = f"{each.best_method} {each.best_score:.{digits}f}"
        rank = f"{each.rank:g} of {each.n_methods + 1}"
        lines.append(f"| {each.table} | {metric} | {each.score:.{digits}f} | {each.n_folds} | {rank} | {best} |")
    if ranks:
        mean = sum(each.rank for each in ranks) / len(ranks)
        lines.append(f"| mean of {len(ranks)} | | | | {mean:.1f} | |")
    return "\n".join(lines)
