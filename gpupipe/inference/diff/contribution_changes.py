"""Differences of the contributions of input columns between two models, by row and over all changed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpupipe.inference.diff.decision_changes import RowMoves
from gpupipe.inference.diff.shared_table import SharedTable
from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.explanation.outputs import margin_places, middle_quantile
from gpupipe.model_parts.goal import Goal
from gpupipe.models.composites.contributions import to_outputs
from gpupipe.models.contributions.base import Contributions
from gpupipe.report.text import number
from gpupipe.table.encode import plain_values
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

FEWEST_EXPLAINED, MOST_EXPLAINED = 100, 1_000  # changed rows
LIMIT_SECONDS = 20.0  # of one core, for both models


@dataclass(frozen=True)
class RowChange:
    """Prediction of a row that changed, and the columns that changed it.

    `base` and `differences`, new minus old, sum to the difference of the margins. A column of one model only counts as
    a contribution of 0 to the other. `values` are those of the columns, as text.
    """

    row: int
    old: str
    new: str
    is_flipped: bool
    old_margin: float
    new_margin: float
    base: float
    differences: Mapping[str, float]
    values: Mapping[str, str]
    ids: Mapping[str, str]


@dataclass(frozen=True)
class ContributionChanges:
    """Columns that explain how the predictions for a target changed.

    `columns` has the mean absolute difference of the contributions of each column over `n_explained` changed rows, the
    largest first; `base` is the difference of the bases. `rows` are the flipped rows, then others, the most moved
    first. `problem` is the reason if the contributions cannot be compared.
    """

    target: str
    scale: str = ""
    n_explained: int = 0
    base: float = 0.0
    columns: Mapping[str, float] = field(default_factory=dict)
    rows: tuple[RowChange, ...] = ()
    problem: str = ""


def contribution_changes(
    models: tuple[Model, Model], table: SharedTable, moves: tuple[RowMoves, ...], ids: pa.Table, n_rows: int
) -> tuple[ContributionChanges, ...]:
    """Return the changes of each target whose predictions changed.

    Rows are listed up to `n_rows` for each target. The mean is over at most 1,000 evenly spaced changed rows, or fewer
    if the models take long to explain. Contributions to several classes are those to the new label.
    """
    goal = models[1].goal
    row_seconds = sum(model.explainer.row_seconds for model in models) + 1e-9
    most = int(min(MOST_EXPLAINED, max(FEWEST_EXPLAINED, LIMIT_SECONDS / row_seconds)))
    listed, sampled = [own.most_moved(n_rows) for own in moves], [_evenly(own.size, most) for own in moves]
    if not any(map(len, sampled)):  # equal predictions, of which a threshold may make other decisions
        return ()
    numbers = np.unique(np.concatenate([*listed, *sampled]))
    (one, old_rows), (two, new_rows) = (table.explain(model, numbers) for model in models)
    old, new = _contributions(one), _contributions(two)
    if old.scale != new.scale and not goal.targets:
        old, new = to_outputs(old), to_outputs(new)
    if old.scale != new.scale:
        why = f"contributions: one model explains the {old.scale} and the other the {new.scale}"
        return tuple(ContributionChanges(own.target or "", problem=why) for own in goal.each)
    columns = tuple(dict.fromkeys([*two.columns, *one.columns]))
    places = [margin_places(goal, each.outputs) for each in (one, two)]
    found = []
    for i, own in enumerate(goal.each):
        at = [_margin_of(own, place[i], moves[i], numbers) for place in places]
        (before, base_0), (after, base_1) = _aligned(old, one, at[0], columns), _aligned(new, two, at[1], columns)
        is_known = (at[0] >= 0) & (at[1] >= 0)  # a class that a model never saw has no margin
        rows = []
        for place in np.searchsorted(numbers, listed[i]).tolist():
            if is_known[place]:
                margins = [float(base[place] + each[place].sum()) for base, each in ((base_0, before), (base_1, after))]
                values = _texts(old_rows, place) | _texts(new_rows, place)
                row, change = int(numbers[place]), (after[place] - before[place]).tolist()
                rows.append(
                    RowChange(
                        row,
                        moves[i].text(moves[i].old, row),
                        moves[i].text(moves[i].new, row),
                        bool(moves[i].flipped[row]),
                        old_margin=margins[0],
                        new_margin=margins[1],
                        base=float(base_1[place] - base_0[place]),
                        differences=_largest_first(columns, change),
                        values={name: values[name] for name in columns if name in values},
                        ids=_texts(ids, row),
                    )
                )
        chosen = np.flatnonzero(np.isin(numbers, sampled[i]) & is_known)
        size = np.abs(after - before)[chosen].mean(axis=0) if len(chosen) else np.zeros(len(columns))
        base = float((base_1 - base_0)[chosen].mean()) if len(chosen) else 0.0
        means = _largest_first(columns, size.tolist())
        found.append(ContributionChanges(own.target or "", new.scale, len(chosen), base, means, tuple(rows)))
    return tuple(found)


def _evenly(size: HostArray, most: int) -> HostArray:
    """Return the numbers of at most `most` changed rows, evenly spaced."""
    changed = np.flatnonzero(size > 0)
    return changed[np.unique(np.linspace(0, len(changed) - 1, min(len(changed), most)).astype(np.int64))]


def _contributions(found: Explanation) -> Contributions:
    values = np.moveaxis(found.values, 1, 2) if found.outputs else found.values[:, None, :]
    return Contributions(values, np.atleast_1d(found.base), found.scale)


def _margin_of(goal: Goal, places: tuple[int, ...], moves: RowMoves, numbers: HostArray) -> HostArray:
    """Return the position of the margin that explains each row, int64; -1 if the model has none."""
    if goal.task == "multiclass":
        return np.array(places)[moves.new[numbers]]
    return np.full(len(numbers), places[middle_quantile(goal) if goal.quantiles else 0])


def _aligned(
    found: Contributions, explanation: Explanation, at: HostArray, columns: tuple[str, ...]
) -> tuple[HostArray, HostArray]:
    """Return the contributions of `columns` to the margin of each row, shape (n, n_columns), and its base."""
    values = np.zeros((len(at), len(columns)))
    values[:, [columns.index(name) for name in explanation.columns]] = found.values[np.arange(len(at)), at]
    return values, found.base[at]


def _largest_first(columns: tuple[str, ...], values: list[float]) -> dict[str, float]:
    return dict(sorted(zip(columns, values, strict=True), key=lambda each: -abs(each[1])))


def _texts(rows: pa.Table, place: int) -> dict[str, str]:
    row = rows.slice(place, 1)
    values = {name: plain_values(row, name)[0].as_py() for name in rows.column_names}
    texts = {name: number(value) if isinstance(value, float) else str(value) for name, value in values.items()}
    return {name: "missing" if values[name] is None else text for name, text in texts.items()}
