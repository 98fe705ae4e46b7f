"""Explanations as columns of output tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ConfigError
from gpupipe.inference.explanation.explanation import Explanation, strongest_columns
from gpupipe.inference.explanation.outputs import margin_places, middle_quantile
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.model_parts.goal import Goal, output_of_target
from gpupipe.model_parts.reason_codes import Reason
from gpupipe.models import Prediction
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.model_parts.decision import Decision

MOST_PAIRS = 10_000  # columns of interactions in a table


def contribution_table(found: Explanation) -> pa.Table:
    """Return the columns ``base``, ``margin`` and ``contribution_COLUMN``; with several outputs, each has its own.

    Those of an output are ``base_OUTPUT``, ``margin_OUTPUT`` and ``contribution_OUTPUT_COLUMN``. Interactions, if there
    are any, are ``interaction_FIRST_x_SECOND`` for each pair of columns: the whole interaction, of which each of the
    two contributions includes one half. With reason codes, ``reason_code_1``, ``reason_text_1`` and ``reason_column_1``
    are those of the strongest reason, and so on; null if a row has fewer reasons.

    Raise ConfigError if there are more than 10,000 interactions; or if two columns would have the same name, as those
    of the column ``b_c`` for the output ``a`` and of the column ``c`` for the output ``a_b``.
    """
    table: list[tuple[str, Any]] = []
    for output, values, base, pairs in _each_output(found):
        of = f"{output}_" if output else ""
        suffix = f"_{output}" if output else ""
        table += [(f"base{suffix}", np.full(len(values), base)), (f"margin{suffix}", base + values.sum(axis=1))]
        table += [(f"contribution_{of}{name}", values[:, j]) for j, name in enumerate(found.columns)]
        if pairs is not None:
            _require_few(found)
            for (i, first), (j, second) in combinations(enumerate(found.columns), 2):
                table.append((f"interaction_{of}{first}_x_{second}", pairs[:, i, j] + pairs[:, j, i]))
    if found.reason_codes is not None:
        table += _reason_codes(found.reasons(), found.reason_codes.top)
    names, columns = [name for name, _ in table], [column for _, column in table]
    if len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise ConfigError(
            f"two columns of the explanation have the name {twice!r}",
            fix="use `model.explain` in Python, or rename the input columns and train again",
        )
    return pa.table(columns, names=names)


def _reason_codes(reasons: Sequence[Sequence[Reason]], top: int) -> Iterator[tuple[str, pa.Array]]:
    for k in range(top):
        own = [each[k] if k < len(each) else None for each in reasons]
        for part in ("code", "text", "column"):
            values = [None if reason is None else getattr(reason, part) for reason in own]
            yield f"reason_{part}_{k + 1}", pa.array(values, pa.string())


def reason_table(
    found: Explanation, n: int, rows: pa.Table, prediction: Prediction, goal: Goal, decision: Decision
) -> pa.Table:
    """Return the `n` strongest contributions to each prediction, strongest first.

    The columns are ``reason_1``, the name of an input column, ``reason_1_value``, its value in the row as text, and
    ``reason_1_contribution``. Those of several targets are ``reason_TARGET_1`` and so on. Of several classes, the
    contributions to the predicted class count, and of quantiles those to the one nearest to the median.
    """
    if not goal.targets:
        (places,) = margin_places(goal, found.outputs)
        return pa.table(
            dict(_reasons(found.columns, _of_prediction(found, places, prediction, goal, decision), n, rows))
        )
    table: dict[str, Any] = {}
    each = zip(goal.targets, prediction.parts, decision.targets, margin_places(goal, found.outputs), strict=True)
    for own, part, decided, places in each:
        named = _reasons(found.columns, _of_prediction(found, places, part, own, decided), n, rows)
        table |= {output_of_target(name, own): column for name, column in named}
    return pa.table(table)


def _reasons(
    columns: Sequence[str], values: HostArray, n: int, rows: pa.Table
) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
    order = strongest_columns(values, n)
    texts = [_texts(rows, name) for name in columns]
    for k in range(order.shape[1]):
        chosen = order[:, k]
        yield f"reason_{k + 1}", pa.array(columns, pa.string()).take(pa.array(chosen))
        picked = pa.nulls(len(chosen), pa.string())
        for j in np.unique(chosen):
            picked = pc.if_else(pa.array(chosen == j), texts[j], picked)
        yield f"reason_{k + 1}_value", picked
        yield f"reason_{k + 1}_contribution", np.take_along_axis(values, chosen[:, None], axis=1)[:, 0]


def _texts(rows: pa.Table, name: str) -> pa.Array | pa.Scalar:
    """Return the values of an input column as texts; null for further tables and other rows."""
    if name not in rows.column_names:
        return pa.scalar(None, pa.string())
    column = rows.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = column.combine_chunks()
    return pc.cast(found, pa.string(), safe=False)


def _of_prediction(
    found: Explanation, places: tuple[int, ...], prediction: Prediction, goal: Goal, decision: Decision
) -> HostArray:
    """Return the contributions to the predicted class, the middle quantile, or a single margin, shape (n, n_columns).

    `places` are the positions of the margins of one target; see `margin_places`.
    """
    if not found.outputs:
        return found.values
    if goal.task != "multiclass":
        return found.values[:, :, places[middle_quantile(goal) if goal.quantiles else 0]]
    assert prediction.probability is not None
    codes = np.asarray(predicted_labels(goal.task, prediction.probability, decision.threshold))
    values: HostArray = found.values[np.arange(len(codes)), :, np.array(places)[codes]]
    return values


def _each_output(found: Explanation) -> Iterator[tuple[str, HostArray, float, HostArray | None]]:
    pairs = found.interactions
    if not found.outputs:
        yield "", found.values, float(found.base), pairs
        return
    for i, output in enumerate(found.outputs):
        yield output, found.values[:, :, i], float(found.base[i]), None if pairs is None else pairs[..., i]


def _require_few(found: Explanation) -> None:
    m = len(found.columns)
    n_pairs = m * (m - 1) // 2 * max(1, len(found.outputs))
    if n_pairs > MOST_PAIRS:
        raise ConfigError(
            f"expected at most {MOST_PAIRS:,} interactions in a table; got {n_pairs:,} of {m:,} columns",
            fix="leave --interactions out, or compute them for some rows: model.explain(rows, interactions=True)",
        )
