"""The result of a run in sentences, for readers who do not know the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpupipe.names import count_noun
from gpupipe.report.data import Classification, Confusion, LeaderboardRow, ReportData, TargetReport
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.text import metric_title, number, percent

if TYPE_CHECKING:
    from gpupipe.metrics import CutoffNdcg, QuantileLoss, Residuals

MOST_TARGETS = 5  # whose results are sentences


def result_sentences(data: ReportData) -> list[str]:
    """Return what the best model achieves on the rows that evaluated it, most important sentence first.

    Examples
    --------
    >>> from gpupipe.metrics import TopRows
    >>> from gpupipe.report.data import LeaderboardRow
    >>> found = Classification(positive="Yes", prevalence=0.27, headline=TopRows(n_rows=100, hits=69.0))
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
    if data.cluster_sizes:
        return _clusters(data.cluster_sizes, rows)
    several, found = len(data.results) > 1, []
    for result in data.results[:MOST_TARGETS]:
        sentences = _prediction_sentences(result, rows)
        found += sentences[:1] if several else sentences
        if result.intervals is not None and not several:
            found.append(_coverage(result.intervals, result.target or "the target"))
    return found


def _prediction_sentences(result: TargetReport, rows: str) -> list[str]:
    if (found := result.classification) is not None:
        target = result.target or "the target"
        if result.task == "binary":
            return _binary(found, target, rows)
        return [] if found.confusion is None else _multiclass(found.confusion, target, rows)
    if result.regression is not None:
        return _regression(result.regression, result.target or "value", rows)
    if result.ndcg:
        return _ndcg(result.ndcg, result.target or "relevance")
    return _quantiles(result.quantiles, result.target or "value", rows) if result.quantiles else []


def evaluation_basis(data: ReportData) -> str:
    """Return the rows that the model was evaluated on, and their weights; "" without a target."""
    if data.target is None:
        return ""
    weighted = f" Each row counts by its {data.weight}." if data.weight else ""
    if data.rows_test:
        return f"Measured on {count_noun(data.rows_test, 'test row')} that the model was not trained on.{weighted}"
    if _compared_on(data, "nested"):
        own = "by the members' models that were not trained on it, with weights that the other folds choose"
        exported = "The exported ensemble is trained on all rows, and no row is left to measure it."
        return f"Measured out of fold: each row is predicted {own}. {exported}{weighted}"
    return f"Measured out of fold: each row is predicted by a model that was not trained on it.{weighted}"


def comparison_sentence(data: ReportData) -> str:
    """Return what was compared, on which rows, and which rows had no part in it; "" if nothing was compared.

    Examples
    --------
    >>> from gpupipe.report.data import LeaderboardRow
    >>> from gpupipe.report.search_record import TriedCounts
    >>> data = ReportData(
    ...     name="churn", created="", seconds=1.0, device="cpu", device_reason="", task="binary", target="Churn",
    ...     metric="roc_auc", leaderboard=[LeaderboardRow(model=name, metrics={}) for name in ("xgboost", "knn")],
    ...     rows_train=5634, rows_test=1409, n_features=30, tried=TriedCounts(2), n_validation_rows=1127,
    ... )
    >>> for part in comparison_sentence(data).split("; "):
    ...     print(part)
    2 models were compared on 1,127 validation rows held out of the training rows
    no choice was made on the 1,409 test rows, which only measure the result.
    """
    if not data.tried.is_choice:
        return ""
    is_later = _compared_on(data, "later")
    searched = "the latest training rows" if is_later else "out-of-fold predictions of the training rows"
    rows = [searched] if _has_search(data) else []
    several = len(data.leaderboard) > 1
    if data.n_validation_rows and several:
        rows.append(f"{count_noun(data.n_validation_rows, 'validation row')} held out of the training rows")
    elif several:
        rows.append("the test rows" if data.target is None else "the rows of all folds")
    compared = f"{data.tried} were compared on {' and on '.join(rows)}"
    if data.target is None:
        return f"{compared}."
    if data.rows_test:
        tested = f"the {count_noun(data.rows_test, 'test row')}, which only measure the result"
        return f"{compared}; no choice was made on {tested}."
    if _compared_on(data, "nested"):
        why = "those of a fold also ended the trainings of its models early"
        return f"{compared}, which measure the result too; {why}, so the score is slightly optimistic."
    if not several:
        return f"{compared} of each fold; no choice was made on the rows that test the fold."
    if (score := data.selection.get(data.metric)) is not None:
        with_choice = f"with the choice of the model included, {metric_title(data.metric)} is {number(score)}"
        return f"{compared}; {with_choice}."
    return f"{compared}, which also measure the result, so the score of the best model is optimistic."


def _compared_on(data: ReportData, rows: str) -> bool:
    return any(row.search is not None and row.search.rows == rows for row in data.leaderboard)


def _has_search(data: ReportData) -> bool:
    return data.tried.features > 0 or any(row.search is not None for row in data.leaderboard)


def search_lines(rows: Sequence[LeaderboardRow]) -> list[str]:
    """Return the summary of each search of a leaderboard as a line, preceded by the label of its candidate."""
    return [f"{row.model}: {row.search.summary()}" for row in rows if row.search is not None]


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


def _regression(found: Residuals, target: str, rows: str) -> list[str]:
    half, most, constant = (number(each) for each in (found.errors["0.5"], found.errors["0.9"], found.constant_error))
    return [
        f"Half of the predictions are within {half} of the true {target}, and 90 % within {most}.",
        f"Always predicting the median of the {rows}, half would be within {constant}.",
    ]


def _quantiles(found: Sequence[QuantileLoss], target: str, rows: str) -> list[str]:
    """Return how often the true values are below the quantiles, and how much better these are than constants."""
    low, high = found[0], found[-1]
    if low is high:
        share = percent(low.share)
        first = f"The true {target} is at most its predicted quantile {low.level:g} for {share} of the {rows}."
    else:
        first = (
            f"The true {target} is between its predicted quantiles {low.level:g} and {high.level:g} for "
            f"{percent(high.share - low.share)} of the {rows}; {100 * (high.level - low.level):.6g} % are expected."
        )
    loss, constant = (sum(values) for values in zip(*((row.loss, row.constant_loss) for row in found), strict=True))
    if not constant:
        return [first]
    gain = percent(1 - loss / constant)
    return [first, f"The pinball loss is {gain} lower than that of the same quantiles of all {rows}."]


def _ndcg(found: Sequence[CutoffNdcg], target: str) -> list[str]:
    """Return sentences about the NDCG of the first rows of the groups."""
    last = found[-1]
    return [
        f"The NDCG of the first {last.cutoff} rows of a group is {number(last.ndcg)} by {target}; in random order it "
        f"would be {number(last.random_ndcg)}."
    ]


def _coverage(found: IntervalCoverage, target: str) -> str:
    level, inside = percent(found.level), percent(found.coverage)
    if found.mean_size is not None:
        return (
            f"Prediction sets at {level} contain the true {target} for {inside} of the rows; the mean number of "
            f"classes in a set is {found.mean_size:.2f}."
        )
    width = number(found.mean_width)
    return f"Prediction intervals at {level} contain the true {target} for {inside} of the rows; mean width {width}."


def _clusters(sizes: Sequence[int], rows: str) -> list[str]:
    total, filled = sum(sizes), [size for size in sizes if size]
    return [
        f"The {number(int(total))} {rows} fall into {count_noun(len(filled), 'cluster')}; the largest has "
        f"{percent(max(filled) / total)} of them, the smallest {percent(min(filled) / total)}."
    ]
