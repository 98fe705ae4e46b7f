"""Metrics, candidates, limits and parity, as a model card lists them."""

from __future__ import annotations

import math

from gpupipe.features.statistics.training_summary import TrainingSummary
from gpupipe.inference.parity.check import TOLERANCE, PredictionDifference
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import METRICS
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.report.slices import MISSING_LEVEL
from gpupipe.report.text import metric, metric_names, metric_title, number, percent

FEW_ROWS = 100


def metric_table(facts: CardFacts, most_targets: int) -> str:
    """Return the table of the metrics, with a column for each of the first targets."""
    values = facts.outcome.leaderboard[0].metrics
    targets = [f"[{name}]" for name in facts.goal.names[:most_targets]] if facts.goal.targets else []
    whole = f"mean over {facts.split.n_folds} folds ± standard deviation" if facts.split.n_folds > 1 else "value"
    of_all = "mean of the targets" if targets else whole
    rows = [
        [metric_title(name), "higher" if METRICS.get(name).greater_is_better else "lower", *cells]
        for name in metric_names(values)
        if any(cells := [metric(values, f"{name}{of}") for of in ("", *targets)])
    ]
    return table(["metric", "better", of_all, *(facts.name(name[1:-1]) for name in targets)], rows, n_left=2)


def slice_table(facts: CardFacts, most: int) -> str:
    """Return the table of the slices, those that are worse than all rows first; empty without slices."""
    name, slices = facts.job.metrics[0], sorted(facts.outcome.slices[1:], key=lambda each: not each.is_worse)
    if not slices:
        return ""
    rows = []
    for each in slices[:most]:
        level, ends = each.level, map(number, each.intervals.get(name, ()))
        rows.append([facts.name(each.column), MISSING_LEVEL if level is None else facts.name(level)])
        rows[-1] += [f"{each.n_rows:,}", number(each.metrics[name]), " to ".join(ends), "yes" * each.is_worse]
    head = ["column", "slice", "rows", metric_title(name), "95 % interval", "worse than all rows"]
    return table(head, rows, n_left=2)


def scores(facts: CardFacts, most: int) -> str:
    """Return the candidates with the metric that orders them."""
    entries, name = facts.outcome.leaderboard, facts.job.metrics[0]
    is_validated = bool(entries[0].validation)
    found = [f"{facts.name(e.label)} {metric(e.validation if is_validated else e.metrics, name)}" for e in entries]
    return enumerate_names(found, most)


def rare_classes(facts: CardFacts, most: int) -> str:
    """Return the classes with few test rows.

    The margin is the half-width of the 95 % normal interval of a share at its widest, 1.96 √(0.25 / n): 10 percentage
    points for `FEW_ROWS` rows.
    """
    rare: list[tuple[int, str]] = []
    for goal, counts in facts.class_counts:
        of_target = f" of {facts.name(goal.target)}" if facts.goal.targets else ""
        each = zip(goal.label_texts, counts, strict=True)
        rare += [(tested, facts.name(label) + of_target) for label, (_, tested) in each if tested < FEW_ROWS]
    shown = [
        f"{name} ({count_noun(n, 'row')}" + (f", ±{98 / math.sqrt(n):.0f} percentage points)" if n > 1 else ")")
        for n, name in sorted(rare, key=lambda each: each[0])
    ]
    return enumerate_names(shown, most)


def sparse_columns(facts: CardFacts, training: TrainingSummary, most: int) -> str:
    """Return the columns with few known values."""
    known = {name: training.n_rows - column.n_null for name, column in training.columns.items() if column.n_null}
    return enumerate_names([f"{facts.name(name)} ({n:,})" for name, n in known.items() if n < FEW_ROWS], most)


def new_levels(facts: CardFacts, training: TrainingSummary, most: int) -> str:
    """Return the expected share of rows with an unseen level by column (I. J. Good, Biometrika 40, 1953)."""
    shares = {name: (column.n_singletons or 0) / max(training.n_rows, 1) for name, column in training.columns.items()}
    ordered = sorted(shares.items(), key=lambda each: -each[1])
    return enumerate_names([f"{facts.name(name)} {percent(share)}" for name, share in ordered if share > 0], most)


def parity_table(_: CardFacts, found: Verification) -> str:
    """Return the table of the largest differences of a verification."""
    features = _difference(max((c.relative for c in found.columns if c.kind == "numbers"), default=0.0), " (relative)")
    relative = f"{TOLERANCE['numbers']['relative']:g} (relative); codes must be equal"
    rows = [
        [f"{count_noun(len(found.columns), 'feature')} of {count_noun(found.rows, 'row')}", features, relative],
        _predicted("from recorded features", "estimator", found.estimator),
        _predicted("from recorded rows", "predictions", found.predictions),
    ]
    return table(["compared", "largest difference", "tolerance"], rows, n_left=3)


def _predicted(how: str, part: str, found: PredictionDifference) -> list[str]:
    limits = TOLERANCE[part]
    flips = f", {count_noun(found.label_flips, 'label')} changed" if found.label_flips else ""
    share = f"{100 * (1 - limits['share_of_rows']):g} % of the rows"
    tolerance = f"{limits['of_the_largest']:g} of the largest value, in {share}"
    return [f"{count_noun(found.rows, 'prediction')} {how}", _difference(found.largest) + flips, tolerance]


def _difference(value: float, unit: str = "") -> str:
    return f"{number(value)}{unit}" if value else "none"
