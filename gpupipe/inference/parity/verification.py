"""Result of replaying a parity record: by column, by row, and in total."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from gpupipe.files.jsonfile import plain
from gpupipe.inference.parity.check import ColumnDifference, PredictionDifference


@dataclass(frozen=True)
class Verification:
    """Differences between replayed and recorded outputs, as returned by `gpupipe.Model.verify`.

    Attributes
    ----------
    device, reason, interpreter : str
        The device and interpreter that computed the features, and the reason for the device.
    rows : int
        Recorded rows.
    columns : tuple of ColumnDifference
        One per feature.
    estimator : PredictionDifference
        Difference of the estimator alone, on the recorded features.
    predictions : PredictionDifference
        Difference of features and estimator together.
    metrics : dict of str to tuple of float
        Metrics on the rows with a target: recorded, and replayed.
    problems : tuple of str
        Descriptions of what is outside the tolerance; empty if nothing is.
    not_covered : tuple of str
        Descriptions of what the recorded rows do not cover.
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
            "parity with training": f"{found} on the {self.device}", "compared": self.summary,
            "problems": "; ".join(self.problems), "not covered": "; ".join(self.not_covered),
        }  # fmt: skip
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items() if text)
        metrics = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{then:.6g}</td><td>{now:.6g}</td></tr>"
            for name, (then, now) in self.metrics.items()
        )
        head = "<tr><th>metric on the recorded rows</th><th>recorded</th><th>here</th></tr>"
        return f"<table>{rows}</table>" + (f"<table>{head}{metrics}</table>" if metrics else "")

    @property
    def passed(self) -> bool:
        """True if everything is within the tolerance."""
        return not self.problems

    @property
    def worst(self) -> ColumnDifference:
        """The column with the most rows outside the tolerance, then the largest error."""
        return max(self.columns, key=lambda c: (c.outside, c.absolute if c.kind == "ids" else c.relative))

    @property
    def summary(self) -> str:
        """One line of text: the number of compared values, and the largest difference."""
        flips, largest = self.predictions.label_flips, self.predictions.largest
        compared = f"{len(self.columns)} features of {self.rows} rows, {self.predictions.rows} predictions"
        flipped = f", {flips} label flip{'s' * (flips != 1)}" if flips else ""
        return f"{compared}{flipped}; " + (f"largest difference {largest:.2g}" if flips or largest else "no difference")

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values; non-finite numbers become null."""
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
