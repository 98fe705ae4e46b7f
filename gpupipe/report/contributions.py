"""Contributions of input columns to the predictions of explained rows, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.names import count_noun
from gpupipe.report.example_rows import ExampleRow

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

MIN_CORRELATION = 0.5  # Cohen, "Statistical power analysis for the behavioral sciences" (1988): a large correlation
MIN_ROWS = 5  # of a level, so that no single row stands for it
MISSING_LEVEL = "missing"
SCALE_UNITS = {"log-odds": "log-odds", "probability": "probability", "log of the value": "logarithm"}


@dataclass(frozen=True, kw_only=True)
class Direction:
    """Relation between the values of an input column and its contributions."""

    # Numbers and times: their rank correlation, 0 if it is weak: both low and high values raise the prediction
    correlation: float | None = None
    # `highest`, `lowest`: categories: the levels with the highest mean contribution, if it is positive, and the lowest,
    # if negative
    highest: str = ""
    lowest: str = ""


@dataclass(frozen=True, kw_only=True)
class ExplainedColumn:
    """Values of an input column in the explained rows."""

    name: str
    # {"numeric", "datetime", "categorical", ""}: "" for columns without values: text, hashed columns, further tables
    # and other rows
    kind: Literal["numeric", "datetime", "categorical", ""] = ""
    # Numbers and microseconds since 1970-01-01 UTC with NaN for null, or levels with None for null
    values: Sequence[Any] | HostArray = ()

    @property
    def is_drawable(self) -> bool:
        """True if contributions can be drawn against its values."""
        return bool(self.kind) and any(value is not None and value == value for value in self.values)

    def direction(self, contributions: HostArray) -> Direction | None:
        """Return the direction of the contributions of this column, float64, shape (n,); None if it has none.

        Examples
        --------
        >>> import numpy as np
        >>> column = ExplainedColumn(name="age", kind="numeric", values=[20.0, 30.0, 40.0, float("nan")])
        >>> column.direction(np.array([0.9, 0.5, 0.2, 0.3]))
        Direction(correlation=-1.0, highest='', lowest='')
        """
        import numpy as np

        if not self.kind:
            return None
        if self.kind == "categorical":
            levels, codes, counts = np.unique(level_names(self.values), return_inverse=True, return_counts=True)
            means = np.bincount(codes, contributions) / counts
            levels, means = levels[counts >= MIN_ROWS], means[counts >= MIN_ROWS]
            if len(means) < 2 or means.min() == means.max():
                return None
            highest = levels[means.argmax()] if means.max() > 0 else ""
            return Direction(highest=highest, lowest=levels[means.argmin()] if means.min() < 0 else "")
        values = np.asarray(self.values, float)
        is_known = ~np.isnan(values)
        values, moved = _ranks(values[is_known]), _ranks(contributions[is_known])
        if not len(values) or np.ptp(values) == 0 or np.ptp(moved) == 0:
            return None
        correlation = float(np.corrcoef(values, moved)[0, 1])  # Spearman's, ties included
        return Direction(correlation=correlation if abs(correlation) >= MIN_CORRELATION else 0.0)


def level_names(values: Sequence[Any] | HostArray) -> HostArray:
    """Return levels as texts, object, shape (n,), `MISSING_LEVEL` for None."""
    import numpy as np

    return np.array([MISSING_LEVEL if value is None or value != value else str(value) for value in values], object)


def _ranks(values: HostArray) -> HostArray:
    """Return the rank of each value, float64, shape (n,); that of equal values is the mean of their ranks."""
    import numpy as np

    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[codes]


@dataclass(frozen=True, kw_only=True)
class ContributionBar:
    """Size and direction of the contributions of one column."""

    position: int  # of the column
    name: str
    mean: float  # mean absolute contribution; over all margins if there are several
    direction: Direction | None = None
    label: str = ""  # of several margins, the one with the largest contributions, which `direction` is about


@dataclass(frozen=True, kw_only=True)
class TargetContributions:
    """Contributions of input columns to the predictions of one target."""

    target: str | None
    scale: str  # see `gpupipe.inference.explanation.explanation.Explanation`
    method: str
    columns: Sequence[ExplainedColumn]
    values: HostArray  # float64, shape (n, n_columns, n_margins)
    base: HostArray  # float64, shape (n_margins,)
    # The class or the quantile (``"0.5 quantile"``) of each margin; ``("",)`` for a value
    labels: Sequence[str] = ("",)
    order: Sequence[int] = (0,)  # margins in the order to be shown: those of the most frequent predicted classes first
    has_classes: bool = False  # whether the labels are classes
    examples: Sequence[ExampleRow] = ()
    n_candidates: int = 0  # number of rows that the explained rows were drawn from
    # Whether the exported model was trained on the explained rows, as under cross-validation
    is_in_sample: bool = False
    is_calibrated: bool = False  # whether predictions are calibrated, which margins are not
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # features made of several input columns
    n_models: int = 1  # number of explained models of each member of an ensemble, of `n_all_models`
    n_all_models: int = 1

    @property
    def n_rows(self) -> int:
        """Number of explained rows."""
        return len(self.values)

    @property
    def explained(self) -> str:
        """The explained quantity: ``"the log-odds of Yes"``, ``"the predicted price"``."""
        quantity = SCALE_UNITS.get(self.scale, "")
        if self.has_classes:
            return f"the {quantity} of {self.labels[0] if len(self.labels) == 1 else 'each class'}"
        value = f"predicted {f'{self.labels[0]} of ' if self.labels[0] else ''}{self.target or 'value'}"
        return f"the {quantity} of the {value}" if quantity else f"the {value}"

    @property
    def short_unit(self) -> str:
        """The unit after a number: ``"log-odds"``; "" for values of the target."""
        return {"logarithm": "log"}.get(unit := SCALE_UNITS.get(self.scale, ""), unit)

    @cached_property
    def importances(self) -> HostArray:
        """The mean absolute contribution of each column, over all rows and margins: float64, shape (n_columns,)."""
        import numpy as np

        size: HostArray = np.abs(self.values).mean(axis=(0, 2))
        return size

    @cached_property
    def ranked(self) -> list[int]:
        """Positions of the columns, the largest mean absolute contribution first."""
        import numpy as np

        return [int(i) for i in np.argsort(-self.importances, kind="stable")]

    def bars(self, n: int) -> list[ContributionBar]:
        """Return the `n` columns with the largest contributions over all margins, largest first."""
        import numpy as np

        largest = np.abs(self.values).mean(axis=0).argmax(axis=1)
        several = len(self.labels) > 1
        return [
            self._bar(i, int(largest[i]), float(self.importances[i]), self.labels[largest[i]] if several else "")
            for i in self.ranked[:n]
        ]

    def bars_of(self, margin: int, n: int) -> list[ContributionBar]:
        """Return the `n` columns with the largest contributions to one margin, largest first."""
        import numpy as np

        sizes = np.abs(self.values[:, :, margin]).mean(axis=0)
        return [self._bar(int(i), margin, float(sizes[i])) for i in np.argsort(-sizes, kind="stable")[:n]]

    def _bar(self, position: int, margin: int, mean: float, label: str = "") -> ContributionBar:
        column = self.columns[position]
        direction = column.direction(self.values[:, position, margin])
        return ContributionBar(position=position, name=column.name, mean=mean, direction=direction, label=label)


def contribution_note(found: TargetContributions) -> str:
    """Return what contributions are, how they were computed and for which rows, in a few sentences."""
    methods = {
        "exact trees": "exact Shapley values",
        "exact linear": "exact Shapley values",
        "expected gradients": "expected gradients",
        "sampled permutations": "Shapley values, sampled if there are more than 7 features",
    }
    how = methods.get(found.method, "the weighted sum of those of its models")
    of = f" of {found.n_candidates:,}" if found.n_rows < found.n_candidates else ""
    rows = f"{found.n_rows:,}{of} test rows"
    if found.is_in_sample:
        rows += " of the last fold, on which the exported model was trained as well"
    sentences = [
        f"Contribution: how much the value of a column moves {found.explained}; {how}, of {rows}.",
        f"The base, which is the expected value, and the contributions of all columns add up to the "
        f"{found.short_unit or 'prediction'} of a row{', before calibration' if found.is_calibrated else ''}.",
        "They describe the model, not causes.",
    ]
    if found.n_models < found.n_all_models:
        sentences.append(
            f"To take little time, they explain {found.n_models} of {count_noun(found.n_all_models, 'model')} of each "
            "member of the ensemble; model.explain uses all."
        )
    if found.divided:
        sentences.append(
            f"Contributions of {count_noun(len(found.divided), 'feature')} computed from several columns "
            "are divided equally among these columns."
        )
    return " ".join(sentences)
