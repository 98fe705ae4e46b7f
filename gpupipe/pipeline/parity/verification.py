"""Result of replaying recorded rows: by column, by row, and in total."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from gpupipe.pipeline.jsonfile import plain
from gpupipe.pipeline.parity.check import ColumnDifference, PredictionDifference


@dataclass(frozen=True)
class Verification:
    """What a replay of the recorded rows came to, as `Model.verify` returns it.

    Attributes
    ----------
    device, reason, interpreter : str
        Where the features were computed.
    rows : int
    columns : tuple of ColumnDifference
        One for each feature.
    estimator : PredictionDifference
        The estimator alone, on the features as they were recorded.
    predictions : PredictionDifference
        Features and estimator, from the input on.
    metrics : dict of str to tuple of float
        Of the rows that have a target: as recorded, and here.
    problems : tuple of str
        What is outside the tolerance, in words; empty if nothing is.
    not_covered : tuple of str
        What the recorded rows cannot say.
    """

    device: str
    reason: str
    interpreter: str
    rows: int
    columns: tuple[ColumnDifference, ...]
    estimator: PredictionDifference
    predictions: PredictionDifference
    metrics: dict[str, tuple[float, float]]
    problems: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Verification({'passed' if self.passed else 'failed'} on the {self.device}: {self.summary})"

    def _repr_html_(self) -> str:
        found = "passed" if self.passed else "failed"
        facts = {
            "parity with the training": f"{found} on the {self.device}", "compared": self.summary,
            "problems": "; ".join(self.problems), "not covered": "; ".join(self.not_covered),
        }  # fmt: skip
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items() if text)
        metrics = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{then:.6g}</td><td>{now:.6g}</td></tr>"
            for name, (then, now) in self.metrics.items()
        )
        head = "<tr><th>metric of the recorded rows</th><th>recorded</th><th>here</th></tr>"
        return f"<table>{rows}</table>" + (f"<table>{head}{metrics}</table>" if metrics else "")

    @property
    def passed(self) -> bool:
        """Whether everything is within the tolerance."""
        return not self.problems

    @property
    def worst(self) -> ColumnDifference:
        """The column that is furthest off: by the rows outside the tolerance, then by its error."""
        return max(self.columns, key=lambda c: (c.outside, c.absolute if c.kind == "ids" else c.relative))

    @property
    def summary(self) -> str:
        """How much was compared, and how far apart it is, in one line."""
        flips, largest = self.predictions.label_flips, self.predictions.largest
        compared = f"{len(self.columns)} features of {self.rows} rows, {self.predictions.rows} predictions"
        flipped = f", {flips} label flip{'s' * (flips != 1)}" if flips else ""
        return f"{compared}{flipped}; " + (f"largest difference {largest:.2g}" if flips or largest else "no difference")

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values; what is not finite is null."""
        columns = {
            c.name: {"kind": c.kind, "absolute": c.absolute, "relative": c.relative, "rows_outside": c.outside}
            for c in self.columns
        }
        values: dict[str, Any] = plain({**asdict(self), "columns": columns, "passed": self.passed})
        for part in ("estimator", "predictions"):
            values[part]["passed"] = getattr(self, part).passed
        values["metrics"] = {
            name: plain({"recorded": then, "here": now, "difference": abs(now - then)})
            for name, (then, now) in self.metrics.items()
        }
        return values
