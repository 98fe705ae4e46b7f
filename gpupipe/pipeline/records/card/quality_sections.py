"""Sections of a model card about metrics, limits and parity."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpupipe.inference.parity.check import TOLERANCE, PredictionDifference
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import METRICS
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.markdown import table
from gpupipe.report.sentences import comparison_sentence, evaluation_basis
from gpupipe.report.slices import MISSING_LEVEL
from gpupipe.report.text import column_value, metric, metric_names, metric_title, number, percent, threshold_rule_title
from gpupipe.tasks import CLASSIFICATION

FEW_ROWS = 100
MOST_TARGETS = 8  # columns of a table
MOST_CANDIDATES = 10
MOST_SLICES = 40
MOST_LISTED = 10  # classes, columns, warnings


def metrics_section(facts: CardFacts) -> list[str]:
    """Return the section about metrics, candidates and decisions."""
    lines = ["## Metrics", ""]
    basis = [evaluation_basis(facts.report), comparison_sentence(facts.report)]
    if sentences := [sentence for sentence in basis if sentence]:
        lines += [" ".join(sentences), ""]
    lines += _metric_table(facts) + _slice_table(facts)
    notes = [*_candidate_line(facts), *_decision_lines(facts), *_coverage_lines(facts)]
    if (latency := facts.outcome.leaderboard[0].latency) is not None:
        notes.append(f"Latency of one row, on the machine of the training: {facts.text(str(latency))}.")
    return [*lines, *([""] if notes else []), *(f"- {note}" for note in notes)]


def _metric_table(facts: CardFacts) -> list[str]:
    values = facts.outcome.leaderboard[0].metrics
    targets = [f"[{name}]" for name in facts.goal.names[:MOST_TARGETS]] if facts.goal.targets else []
    whole = f"mean over {facts.split.n_folds} folds ± standard deviation" if facts.split.n_folds > 1 else "value"
    of_all = "mean of the targets" if targets else whole
    rows = [
        [metric_title(name), "higher" if METRICS.get(name).greater_is_better else "lower", *cells]
        for name in metric_names(values)
        if any(cells := [metric(values, f"{name}{of}") for of in ("", *targets)])
    ]
    head = ["metric", "better", of_all, *(facts.name(name[1:-1]) for name in targets)]
    more = len(facts.goal.targets) - len(targets)
    return table(head, rows, n_left=2) + (["", f"And {count_noun(more, 'more target')}."] if more > 0 else [])


def _slice_table(facts: CardFacts) -> list[str]:
    """Return the table of the slices, at most `MOST_SLICES`, those that are worse than all rows first."""
    name, slices = facts.job.metrics[0], sorted(facts.outcome.slices[1:], key=lambda each: not each.is_worse)
    if not slices:
        return []
    rows = []
    for each in slices[:MOST_SLICES]:
        level, ends = each.level, map(number, each.intervals.get(name, ()))
        rows.append([facts.name(each.column), MISSING_LEVEL if level is None else facts.name(level)])
        rows[-1] += [f"{each.n_rows:,}", number(each.metrics[name]), " to ".join(ends), "yes" * each.is_worse]
    head = ["column", "slice", "rows", metric_title(name), "95 % interval", "worse than all rows"]
    more = [f"And {count_noun(len(slices) - MOST_SLICES, 'more slice')}.", ""] * (len(slices) > MOST_SLICES)
    return ["", *table(head, rows, n_left=2), "", *more]


def _candidate_line(facts: CardFacts) -> Iterator[str]:
    entries, name = facts.outcome.leaderboard, facts.job.metrics[0]
    if len(entries) < 2:
        return
    has_validation = bool(entries[0].validation)
    on = " on the validation rows" if has_validation else ""
    scores = [f"{facts.name(e.label)} {metric(e.validation if has_validation else e.metrics, name)}" for e in entries]
    yield f"Candidates by {metric_title(name)}{on}: {enumerate_names(scores, MOST_CANDIDATES)}."


def _decision_lines(facts: CardFacts) -> Iterator[str]:
    for goal, decision in facts.decisions[:MOST_LISTED]:
        of = f"{facts.name(goal.target)}: " if facts.goal.targets else ""
        yield from (of + line for line in _decision(facts, goal, decision))


def _decision(facts: CardFacts, goal: Goal, decision: Decision) -> Iterator[str]:
    if goal.task == "binary":
        rule = facts.job.config.evaluate.threshold
        chosen = f", chosen on held-out rows for the {threshold_rule_title(rule)}" if isinstance(rule, str) else ""
        positive = facts.name(goal.label_texts[1])
        yield f"A row is predicted {positive} if its probability is at least {decision.threshold:.4g}{chosen}."
    if goal.task in CLASSIFICATION:
        if decision.calibration is not None:
            yield f"Probabilities are calibrated on held-out rows: {decision.calibration.method}."
        else:
            yield "Probabilities are those of the model, without calibration."


def _coverage_lines(facts: CardFacts) -> Iterator[str]:
    for goal, found in list(zip(facts.goal.each, facts.coverage, strict=False))[:MOST_LISTED]:
        if found is not None:
            text = str(found)
            yield f"{facts.name(goal.target)}: {text}." if facts.goal.targets else f"{text[0].upper()}{text[1:]}."


def limits_section(facts: CardFacts) -> list[str]:
    """Return the section about what data and evaluation do not cover."""
    lines = [*_time_limit(facts), *_rare_classes(facts), *_sparse_columns(facts), *_new_levels(facts)]
    if facts.trained_columns:
        outside = "Values outside of the training ranges and levels unseen in training are predicted too"
        lines.append(f"{outside}; `model.last_prediction_report` counts them.")
    if facts.is_supervised and not facts.outcome.slices:
        lines.append(
            "Metrics are those of all evaluated rows; groups of rows were not evaluated separately (`evaluate.by`)."
        )
    if facts.outcome.decision.has_intervals:
        what = "Prediction sets" if facts.goal.has_classes else "Intervals"
        lines.append(f"{what} have their coverage on rows like those of the training; a drift of the data ends it.")
    lines.append(
        "A run records neither intended use nor licence: state them here. Editing this file does not affect the model."
    )
    warnings = list(dict.fromkeys(note.text for note in facts.job.timeline.all_notes("warning")))
    found = ["## Limits", "", *(f"- {line}" for line in lines)]
    if warnings:
        found += ["", "Warnings of the run:", ""]
        found += [f"- {facts.text(warning)}" for warning in warnings[:MOST_LISTED]]
        found += [f"- and {len(warnings) - MOST_LISTED:,} more"] * (len(warnings) > MOST_LISTED)
    return found


def _time_limit(facts: CardFacts) -> Iterator[str]:
    split = facts.split
    if (entities := facts.job.config.source.entities) is not None:
        yield f"Trained on events before the cut-off {facts.name(max(entities.as_of))}."
    if split.training_times is not None:
        last = column_value(split.training_times[1], split.time_kind, 6)
        yield f"Trained until {last} ({facts.name(facts.job.config.split.time)})."


def _rare_classes(facts: CardFacts) -> Iterator[str]:
    """Yield a line about classes with few test rows.

    The margin is the half-width of the 95 % normal interval of a share at its widest, 1.96 √(0.25 / n): 10 percentage
    points for `FEW_ROWS` rows.
    """
    targets = [goal for goal in facts.goal.each if goal.labels]
    rare = [
        (tested, f"{facts.name(label)} of {facts.name(goal.target)}" if facts.goal.targets else facts.name(label))
        for goal, counts in zip(targets, facts.split.classes, strict=True)
        for label, (_, tested) in zip(goal.label_texts, counts, strict=True)
        if tested < FEW_ROWS
    ]
    if rare:
        shown = [
            f"{name} ({count_noun(n, 'row')}" + (f", ±{98 / math.sqrt(n):.0f} percentage points)" if n > 1 else ")")
            for n, name in sorted(rare, key=lambda each: each[0])
        ]
        what = f"Fewer than {FEW_ROWS} rows test these classes, so shares of their rows have a wide 95 % margin"
        yield f"{what}: {enumerate_names(shown, MOST_LISTED)}."


def _sparse_columns(facts: CardFacts) -> Iterator[str]:
    training = facts.outcome.champion.features.training
    if training is None:
        return
    known = {name: training.n_rows - column.n_null for name, column in training.columns.items() if column.n_null}
    sparse = [f"{facts.name(name)} ({n:,})" for name, n in known.items() if n < FEW_ROWS]
    if sparse:
        what = f"Columns with a value in fewer than {FEW_ROWS} of {count_noun(training.n_rows, 'training row')}"
        yield f"{what}: {enumerate_names(sparse, MOST_LISTED)}."


def _new_levels(facts: CardFacts) -> Iterator[str]:
    """Yield a line about the expected share of rows with an unseen level (I. J. Good, Biometrika 40, 1953)."""
    training = facts.outcome.champion.features.training
    if training is None:
        return
    shares = {name: (column.n_singletons or 0) / max(training.n_rows, 1) for name, column in training.columns.items()}
    shown = [
        f"{facts.name(name)} {percent(share)}"
        for name, share in sorted(shares.items(), key=lambda each: -each[1])
        if share > 0
    ]
    if shown:
        yield f"Expected share of new rows with a level unseen in training: {enumerate_names(shown, MOST_LISTED)}."


def parity_section(facts: CardFacts) -> list[str]:
    """Return the section about the parity record; empty without one."""
    if facts.parity is None:
        return []
    found, then, here = facts.parity, facts.job.backend.name.upper(), facts.parity.device.upper()
    lines = [
        "## Parity",
        "",
        f"`gpupipe verify model` replays {count_noun(found.rows, 'recorded row')} and compares features and "
        f"predictions with those of the training on the {then}. At export, the model was reloaded on the {here}:",
        "",
        *table(["compared", "largest difference", "tolerance"], _parity_rows(found), n_left=3),
    ]
    if found.not_covered:
        lines += ["", "Not covered:", "", *(f"- {facts.text(each)}" for each in found.not_covered)]
    return lines


def _parity_rows(found: Verification) -> list[list[str]]:
    features = _difference(max((c.relative for c in found.columns if c.kind == "numbers"), default=0.0), " (relative)")
    relative = f"{TOLERANCE['numbers']['relative']:g} (relative); codes must be equal"
    rows = [[f"{count_noun(len(found.columns), 'feature')} of {count_noun(found.rows, 'row')}", features, relative]]
    parts = {"estimator": found.estimator, "predictions": found.predictions}
    names = {"estimator": "from recorded features", "predictions": "from recorded rows"}
    return rows + [_predicted(names[part], part, difference) for part, difference in parts.items()]


def _predicted(how: str, part: str, found: PredictionDifference) -> list[str]:
    limits = TOLERANCE[part]
    flips = f", {count_noun(found.label_flips, 'label')} changed" if found.label_flips else ""
    share = f"{100 * (1 - limits['share_of_rows']):g} % of the rows"
    tolerance = f"{limits['of_the_largest']:g} of the largest value, in {share}"
    return [f"{count_noun(found.rows, 'prediction')} {how}", _difference(found.largest) + flips, tolerance]


def _difference(value: float, unit: str = "") -> str:
    return f"{number(value)}{unit}" if value else "none"
