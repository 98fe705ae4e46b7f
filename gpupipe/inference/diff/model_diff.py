"""`ModelDiff` and `diff`: what changed between two models, and how their predictions for the same rows differ."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError
from gpupipe.inference.diff.conditions import DiffCondition
from gpupipe.inference.diff.contribution_changes import ContributionChanges, RowChange, contribution_changes
from gpupipe.inference.diff.model_changes import ModelChange, model_changes, uncompared
from gpupipe.inference.diff.prediction_comparison import (
    PredictionComparison,
    compare_rows,
    has_equal_classes,
    obstacle,
)
from gpupipe.inference.diff.shared_table import SharedTable
from gpupipe.inference.drift.comparison import identify
from gpupipe.inference.drift.report import ReferenceModel
from gpupipe.inference.explanation.outputs import UNEXPLAINED
from gpupipe.metrics.bootstrap import MetricChange
from gpupipe.names import count_noun
from gpupipe.report.slices import slice_text
from gpupipe.report.text import metric_title, number, percent, printable, signed

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

N_ROWS = 10  # changed rows that are listed by default
N_COLUMNS, N_CHANGES = 10, 40  # listed on the console
N_STRONGEST = 4  # columns of a row, and items of a list
MOST_LETTERS = 60


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelDiff:
    """Differences of two models, as returned by `gpupipe.diff`.

    Attributes
    ----------
    old, new : ReferenceModel
    changes : tuple of ModelChange
        What their directories record: ``part``, ``name``, ``old`` and ``new``. Equal values are not listed.
    uncompared : tuple of str
        What cannot be compared, with reasons.
    predictions : PredictionComparison, optional
        Metrics, slices and decisions on the rows of the table.
    contributions : tuple of ContributionChanges
        For each target the columns that explain the changes, and the rows that changed most.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from gpupipe.inference.diff.model_changes import ModelChange
    >>> from gpupipe.inference.drift.report import ReferenceModel
    >>> gp.ModelDiff(
    ...     old=ReferenceModel(), new=ReferenceModel(), changes=(ModelChange("decision", "threshold", 0.5, 0.4),)
    ... )
    ModelDiff(1 change)
    """

    old: ReferenceModel
    new: ReferenceModel
    changes: tuple[ModelChange, ...] = ()
    uncompared: tuple[str, ...] = ()
    predictions: PredictionComparison | None = None
    contributions: tuple[ContributionChanges, ...] = ()

    def failing(self, conditions: Sequence[str]) -> list[str]:
        """Return the conditions that hold, each with what was found.

        Parameters
        ----------
        conditions : sequence of str
            ``"flips>2%"``, ``"flips>100"``, or a metric: ``"roc_auc<-0.01"`` is about its difference, new minus old,
            and ``"roc_auc.low<0"`` and ``"roc_auc.high<0"`` are about the ends of the interval of the difference.

        Raises
        ------
        ConfigError
            If a condition is malformed, or is about what was not compared.
        """
        found = [DiffCondition.parse(text).found_in(self.predictions) for text in conditions]
        return [text for text in found if text]

    @property
    def summary(self) -> str:
        """The differences in one sentence."""
        parts = [count_noun(len(self.changes), "change")]
        if (compared := self.predictions) is not None:
            rows = count_noun(compared.n_rows, "row")
            parts.append(f"{compared.n_flipped:,} of {rows} {_verb(compared)} ({percent(compared.flipped_share)})")
            for name, change in list(compared.metrics.items())[:1]:
                parts.append(f"{metric_title(name)} {number(change.old)} → {number(change.new)}{_verdict(change)}")
        return ", ".join(parts)

    def lines(self) -> list[str]:
        """Return the differences as lines of text."""
        lines = [f"{what}  {_described(model)}" for what, model in (("old", self.old), ("new", self.new))]
        lines += _table([change_cells(change) for change in self.changes[:N_CHANGES]])
        if (more := len(self.changes) - N_CHANGES) > 0:
            lines.append(f"and {count_noun(more, 'more change')}, which --json lists")
        if (compared := self.predictions) is not None:
            lines += ["", *decision_sentences(compared)]
            if compared.metrics:
                rows = [metric_cells(name, change) for name, change in compared.metrics.items()]
                lines += _table([("metric", "old", "new", "difference", f"95% interval by {compared.units}"), *rows])
            for own in compared.slices:
                first = [f"{n} {' '.join(metric_cells(n, c)[3:])}" for n, c in list(own.metrics.items())[:1]]
                flips = f"{own.n_flipped:,} {_verb(compared)}"
                lines.append(f"{slice_text(own.column, own.level, own.n_rows)}: {', '.join([flips, *first])}")
            lines += [f"note: {note}" for note in compared.notes]
        for explained in self.contributions:
            lines += ["", *_contribution_lines(explained)]
        lines += [f"not compared: {text}" for text in self.uncompared]
        return [*map(printable, lines), printable(self.summary)]

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as values for JSON."""
        return {"summary": self.summary, **asdict(self)}

    def to_html(self, data: str = "", compared: datetime | None = None) -> str:
        """Return one HTML document without scripts that needs no other file and no network.

        Parameters
        ----------
        data : str
            Name of the table, for the title.
        compared : datetime, optional
            When it was compared; default: now.
        """
        from gpupipe.report.environment import html_environment

        environment = html_environment(Path(__file__).parent / "templates")
        environment.globals |= {
            function.__name__: function for function in (change_cells, metric_cells, described_row, slice_text)
        }
        moment = f"{(compared or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        decisions = [] if self.predictions is None else decision_sentences(self.predictions)
        return environment.get_template("diff.html").render(
            title="Two models compared", diff=self, data=data, compared=moment, decisions=decisions
        )

    def __repr__(self) -> str:
        return f"ModelDiff({self.summary})"


def diff(
    old: Model | str | os.PathLike[str],
    new: Model | str | os.PathLike[str],
    data: Any = None,
    *,
    by: str | Sequence[str] = (),
    rows: int = N_ROWS,
    moved: float | None = None,
    tables: Mapping[str, Any] | None = None,
    as_of: str | date | datetime | None = None,
) -> ModelDiff:
    """Return what changed between two models and, with rows, how their predictions differ and which columns explain it.

    Parameters
    ----------
    old, new : Model, str or Path
        Models, or directories of models or runs. Families and features may differ.
    data : frame or path, optional
        Rows that both models predict, as in `gpupipe.Model.predict`; with the target, metrics are compared as well.
        Files may be larger than memory.
    by : str or sequence of str
        Columns whose values divide the rows into slices.
    rows : int
        Maximum number of changed rows to list with their contributions.
    moved : float, optional
        Numbers that change by more count as flipped. Default: the mean absolute error that the old run recorded, or a
        tenth of the standard deviation of the old predictions.
    tables, as_of
        As in `gpupipe.Model.predict`.

    Returns
    -------
    ModelDiff

    Raises
    ------
    ArtifactError
        If a model cannot be loaded.
    ConfigError, SchemaError, DataError
        As `gpupipe.inference.diff.prediction_comparison.compare_predictions`.

    Examples
    --------
    >>> import tempfile
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [i % 60 for i in range(400)], "left": [i % 60 > 30 for i in range(400)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> models = [
    ...     gp.Pipeline(frame, target="left", models=[{"name": "gaussian_nb"}], evaluate={"threshold": threshold})
    ...     .run(f"{folder.name}/{threshold}", quiet=True)
    ...     .model
    ...     for threshold in (0.5, 0.1)
    ... ]
    >>> found = gp.diff(*models, frame)
    >>> [(change.part, change.name, change.old, change.new) for change in found.changes if change.part == "decision"]
    [('decision', 'threshold', 0.5, 0.1)]
    >>> found.failing(["flips>2%"])
    ['flips>2%: 42 of 400 rows flip (10.50 %)']
    >>> folder.cleanup()
    """
    if rows < 0 or (moved is not None and not moved >= 0):
        name, value = ("rows", rows) if rows < 0 else ("moved", moved)
        raise ConfigError(f"expected {name} of at least 0; got {value}", where=name)
    models = _loaded(old), _loaded(new)
    return diff_models(models, None if data is None else SharedTable.of(data, tables, as_of), by, rows, moved)


def diff_models(
    models: tuple[Model, Model],
    table: SharedTable | None,
    by: str | Sequence[str] = (),
    rows: int = N_ROWS,
    moved: float | None = None,
    group: str | None = None,
) -> ModelDiff:
    """Return the differences of loaded models; see `diff`, and for `group` `compare_predictions`."""
    old, new = models
    missing = uncompared(old, new)
    changes = tuple(model_changes(old, new))
    predictions = None
    contributions: tuple[ContributionChanges, ...] = ()
    if table is not None and not obstacle(old.goal, new.goal):
        found = compare_rows(old, new, table, by, group, moved)
        predictions = found.comparison
        if has_equal_classes(old.goal, new.goal) and new.goal.task not in UNEXPLAINED:
            contributions = contribution_changes(models, table, found.moves, found.ids, rows)
            missing += [own.problem for own in contributions if own.problem]
    return ModelDiff(
        old=identify(old),
        new=identify(new),
        changes=changes,
        uncompared=tuple(dict.fromkeys(missing)),
        predictions=predictions,
        contributions=tuple(own for own in contributions if not own.problem),
    )


def _loaded(model: Any) -> Model:
    from gpupipe.inference.model import Model, load_model

    return model if isinstance(model, Model) else load_model(model)


def change_cells(change: ModelChange) -> tuple[str, str, str]:
    """Return part, name, and the change of a value for readers."""
    if isinstance(change.old, list) and isinstance(change.new, list):
        parts = [f"{sign} {_shown(items)}" for sign, items in (("−", change.old), ("+", change.new)) if items]
        return change.part, change.name, "  ".join(parts)
    if change.old is None or change.new is None:
        is_new = change.old is None
        return change.part, change.name, f"{'+' if is_new else '−'} {_shown(change.new if is_new else change.old)}"
    return change.part, change.name, f"{_shown(change.old)} → {_shown(change.new)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        if len(value) > N_STRONGEST and not isinstance(value[0], str):
            return f"{len(value):,} values"
        text = ", ".join(_shown(item) for item in value[:N_STRONGEST])
        return f"{text} and {len(value) - N_STRONGEST:,} more" if len(value) > N_STRONGEST else text
    text = number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def metric_cells(name: str, change: MetricChange) -> tuple[str, ...]:
    """Return a metric, its values, their difference and its interval for readers; * marks an interval without 0."""
    scale = max(abs(change.old), abs(change.new))
    ends = [signed(end, scale) for end in (change.low, change.high) if end == end]
    interval = " to ".join(ends) + " *" * (change.low * change.high > 0)
    difference = signed(change.difference, scale) if change.difference == change.difference else ""
    return metric_title(name), number(change.old), number(change.new), difference, interval if ends else ""


def _verb(compared: PredictionComparison) -> str:
    return "move" if compared.decisions[0].limit is not None else "flip"


def decision_sentences(compared: PredictionComparison) -> list[str]:
    """Return how many decisions flip, for each target, in words."""
    found = []
    for own in compared.decisions:
        name = f"{own.target}: " if len(compared.decisions) > 1 else ""
        share = f"{own.n_flipped:,} of {count_noun(own.n_rows, 'row')} ({percent(own.flipped_share)})"
        if own.limit is not None:
            found.append(f"{name}{share} move by more than {number(own.limit)}, {own.limit_reason}")
            continue
        pairs = [f"{pair.old} → {pair.new} {pair.n_rows:,}" for pair in own.pairs[:N_STRONGEST]]
        by = f"; {own.n_by_threshold:,} because of the threshold alone" if own.n_by_threshold else ""
        found.append(f"{name}{share} flip{': ' if pairs else ''}{', '.join(pairs)}{by}")
    return found


def described_row(row: RowChange, n: int = N_STRONGEST) -> str:
    """Return the strongest differences of a row for readers, and the sum of all others."""
    names = {name: f"{name} = {row.values[name]}" if name in row.values else name for name in row.differences}
    items = [(names[name], value) for name, value in row.differences.items()]
    scale = max([abs(value) for _, value in items], default=0.0)
    others = sum(value for _, value in items[n:])
    shown = [*items[:n], *([("other columns", others)] if items[n:] else []), ("base", row.base)]
    return ", ".join(f"{_shown(name)} {signed(value, scale)}" for name, value in shown)


def _contribution_lines(own: ContributionChanges) -> list[str]:
    name = f"{own.target}: " if own.target else ""
    strongest = [f"{column} {number(value)}" for column, value in list(own.columns.items())[:N_COLUMNS] if value]
    rows = count_noun(own.n_explained, "changed row")
    lines = [f"{name}columns by mean absolute difference of {own.scale}, {rows}: {', '.join(strongest)}"]
    for row in own.rows:
        ids = "".join(f" {name} {value}" for name, value in row.ids.items())
        margins = f"margin {number(row.old_margin)} → {number(row.new_margin)}"
        lines.append(f"row {row.row}{ids}: {row.old} → {row.new}, {margins}: {described_row(row)}")
    return lines


def _described(model: ReferenceModel) -> str:
    return f"{model.name}, {model.estimator}, trained {model.created[:16].replace('T', ' ')}, {model.sha256[:12]}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _verdict(change: MetricChange) -> str:
    if not change.low * change.high > 0:
        return " (no clear difference)" if change.low == change.low else ""
    return f" ({signed(change.low, change.new)} to {signed(change.high, change.new)})"
