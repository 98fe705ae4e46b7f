"""The result of a run in sentences, for readers who do not know the metrics."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.report.data import Classification, Confusion, Regression, ReportData
from gpupipe.report.text import number, percent


def result_sentences(data: ReportData) -> list[str]:
    """Return what the best model achieves on the rows that evaluated it, most important sentence first.

    Examples
    --------
    >>> from gpupipe.report.data import LeaderboardRow, TopGroup
    >>> found = Classification(positive="Yes", prevalence=0.27, headline=TopGroup(n_rows=100, hits=69.0))
    >>> data = ReportData(
    ...     name="churn", created="", seconds=1.0, device="cpu", device_reason="", task="binary", target="Churn",
    ...     metric="roc_auc", leaderboard=[LeaderboardRow(model="xgboost", metrics={})],
    ...     rows_train=5634, rows_test=1409, n_features=30, classification=found,
    ... )
    >>> for part in result_sentences(data)[0].split("; "):
    ...     print(part)
    Of the 100 test rows with the highest predicted probability of Churn = Yes, 69 are Yes
    of 100 chosen at random, 27 would be.
    """
    rows = "test rows" if data.rows_test else "rows"
    if data.classification is not None:
        target = data.target or "the target"
        if data.task == "binary":
            return _binary(data.classification, target, rows)
        return [] if data.classification.confusion is None else _multiclass(data.classification.confusion, target, rows)
    if data.regression is not None:
        return _regression(data.regression, data.target or "value", rows)
    return _clusters(data.cluster_sizes, rows) if data.cluster_sizes else []


def evaluation_basis(data: ReportData) -> str:
    """Return the rows that the model was evaluated on, in one sentence; "" without a target."""
    if data.target is None:
        return ""
    if data.rows_test:
        return f"Measured on {number(data.rows_test)} test rows that the model was not trained on."
    return "Measured out of fold: each row is predicted by a model that was not trained on it."


def _binary(found: Classification, target: str, rows: str) -> list[str]:
    positive = found.positive or "positive"
    sentences = []
    if found.headline is not None and found.prevalence is not None:
        n, hits = found.headline.n_rows, round(found.headline.hits)
        sentences.append(
            f"Of the {n} {rows} with the highest predicted probability of {target} = {positive}, "
            f"{hits} are {positive}; of {n} chosen at random, {round(n * found.prevalence)} would be."
        )
    if found.confusion is not None and len(found.confusion.counts) == 2:
        (_, wrong), (missed, right) = found.confusion.counts
        called, actual = int(wrong + right), int(missed + right)
        if called and actual:
            sentences.append(
                f"The model predicts {positive} for {number(called)} {rows}, and {percent(right / called)} of these "
                f"predictions are right; it finds {percent(right / actual)} of the {number(actual)} rows that are "
                f"{positive}."
            )
    return sentences


def _multiclass(confusion: Confusion, target: str, rows: str) -> list[str]:
    sizes = [int(sum(counts)) for counts in confusion.counts]
    total, right = sum(sizes), sum(int(counts[i]) for i, counts in enumerate(confusion.counts))
    if not total:
        return []
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    constant = confusion.labels[largest]
    return [
        f"{target} is predicted correctly for {percent(right / total)} of the {number(total)} {rows}; always "
        f"predicting {constant}, the most frequent class, would be correct for {percent(sizes[largest] / total)}."
    ]


def _regression(found: Regression, target: str, rows: str) -> list[str]:
    if found.half_within is None:
        return []
    sentence = f"Half of the predictions are within {number(found.half_within)} of the true {target}"
    if found.most_within is not None:
        sentence += f", and 90 % within {number(found.most_within)}"
    if found.constant_half_within is None:
        return [f"{sentence}."]
    constant = number(found.constant_half_within)
    return [f"{sentence}.", f"Always predicting the median of the {rows}, half would be within {constant}."]


def _clusters(sizes: Sequence[int], rows: str) -> list[str]:
    total, filled = sum(sizes), [size for size in sizes if size]
    return [
        f"The {number(int(total))} {rows} fall into {len(filled)} cluster{'s' * (len(filled) != 1)}; the largest has "
        f"{percent(max(filled) / total)} of them, the smallest {percent(min(filled) / total)}."
    ]
