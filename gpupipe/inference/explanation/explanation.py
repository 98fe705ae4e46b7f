"""`Explanation`: contributions of input columns to predictions."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.errors import ConfigError
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.model_parts.reason_codes import ModelReasons, Reason
    from gpupipe.models.contributions.base import Method, Scale

SHOWN_COLUMNS = 20  # in the summary of a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contribution of each input column to each prediction, as returned by `gpupipe.Model.explain`.

    The base and the contributions of a row sum to its margin: ``base + values.sum(axis=1)`` is `margins`. Shapley
    values are the only contributions that do so and treat equal columns alike (Lundberg and Lee, "A unified approach to
    interpreting model predictions", NeurIPS 2017).

    Attributes
    ----------
    columns : tuple of str
        The input columns. Features from a further table count under the name of the table, and features from other rows
        of the main table as ``history``.
    values : array of float64, shape (n, n_columns) or (n, n_columns, n_margins)
        With several margins, the third axis has one position for each of `outputs`.
    base : float, or array of float64, shape (n_margins,)
        Expected margin: over the training rows for trees, over the recorded rows of the run for other models.
    outputs : tuple of str
        Names of several margins: class labels, quantiles, or targets with their classes. Empty for a single margin.
    scale : {"log-odds", "probability", "score", "log of the value"}
        What a margin is. A score is a predicted value, or the score by which a ranking orders rows. Probabilities are
        explained before they are calibrated, and quantiles before they are sorted.
    method : {"exact trees", "exact linear", "exact subsets", "expected gradients", "sampled permutations", "weighted
    sum"}
        How the contributions were computed.
    divided : mapping of str to tuple of str
        Features that are computed from several input columns, such as crosses: their contribution is divided equally
        among these columns.
    interactions : array of float64, optional
        Shape (n, n_columns, n_columns) or (n, n_columns, n_columns, n_margins). ``[:, i, j]`` and ``[:, j, i]`` each
        have half of the interaction of two columns, ``[:, i, i]`` what column i contributes alone; a row of the matrix
        sums to a contribution. None unless requested.
    reason_codes : ModelReasons, optional
        Reason codes of the model, for `reasons`; None if it has none.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline
    >>> frame = pd.DataFrame({"rooms": [1, 2, 3, 4] * 25, "area": range(100), "price": [9.0, 5.0, 4.0, 1.0] * 25})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = Pipeline(frame, target="price", models=["linear_regression"]).run(f"{folder.name}/run", quiet=True)
    >>> found = run.model.explain({"rooms": 4, "area": 50})
    >>> found.columns, found.method
    (('rooms', 'area'), 'exact linear')
    >>> [(name, round(value, 1)) for name, value in found.strongest(1)[0]]
    [('rooms', -3.8)]
    >>> bool(abs(found.margins[0] - run.model.predict({"rooms": 4, "area": 50})[0]) < 1e-6)
    True
    >>> folder.cleanup()
    """

    columns: tuple[str, ...]
    values: HostArray
    base: Any
    outputs: tuple[str, ...]
    scale: Scale
    method: Method
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interactions: HostArray | None = None
    reason_codes: ModelReasons | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def margins(self) -> HostArray:
        """The explained margins, float64, shape (n,) or (n, n_margins)."""
        margins: HostArray = self.base + self.values.sum(axis=1)
        return margins

    def importances(self) -> pd.Series:
        """Return the mean absolute contribution of each column, largest first; with several margins, their sum."""
        import pandas as pd

        size = np.abs(self.values).mean(axis=0) if len(self) else np.zeros(self.values.shape[1:])
        total = size if size.ndim == 1 else size.sum(axis=1)
        return pd.Series(total, list(self.columns), name="contribution").sort_values(ascending=False, kind="stable")

    def to_frame(self, output: str | None = None) -> pd.DataFrame:
        """Return the contributions as a frame with `columns`, one row per row.

        Parameters
        ----------
        output : str, optional
            One of `outputs`; required if there are several.

        Raises
        ------
        KeyError
            If `output` is not one of `outputs`.
        """
        import pandas as pd

        return pd.DataFrame(self._of(output), columns=list(self.columns))

    def strongest(self, n: int, output: str | None = None) -> list[list[tuple[str, float]]]:
        """Return the `n` columns with the largest absolute contributions to each row, largest first.

        Parameters
        ----------
        n : int
        output : str, optional
            As in `to_frame`.
        """
        values = self._of(output)
        order = strongest_columns(values, n)
        return [[(self.columns[j], float(row[j])) for j in chosen] for row, chosen in zip(values, order, strict=True)]

    def reasons(self) -> list[list[Reason]]:
        """Return the reasons of each row, the strongest first.

        They are the columns that move the row most toward the adverse outcome, except excluded ones, at most
        ``evaluate.reason_codes.top``. A row has fewer, or none, if fewer columns move it there.

        Returns
        -------
        list of list of Reason
            Each reason is a tuple ``(column, code, text, contribution)``; ``code`` and ``text`` are None if the column
            has no code.

        Raises
        ------
        ConfigError
            If the model has no reason codes.
        """
        if self.reason_codes is None:
            fix = "train it with evaluate.reason_codes"
            raise ConfigError("the model has no reason codes", where="evaluate.reason_codes", fix=fix)
        return self.reason_codes.rank(self.columns, self.values)

    def _of(self, output: str | None) -> HostArray:
        if not self.outputs:
            return self.values
        if output not in self.outputs:
            raise KeyError(f"expected one of the outputs {', '.join(self.outputs)}; got {output!r}")
        return self.values[:, :, self.outputs.index(output)]

    def __repr__(self) -> str:
        of = f", {len(self.outputs)} outputs" if self.outputs else ""
        return f"Explanation({len(self):,} rows, {len(self.columns)} columns{of}, {self.scale}, {self.method})"

    def _repr_html_(self) -> str:
        shown = self.importances()[:SHOWN_COLUMNS]
        body = "".join(
            f"<tr><td>{html.escape(str(name))}</td><td>{value:.4g}</td></tr>" for name, value in shown.items()
        )
        more = len(self.columns) - len(shown)
        rest = f"<tr><td>and {more} more</td><td></td></tr>" if more > 0 else ""
        head = f"<tr><th>column</th><th>mean absolute contribution ({self.scale})</th></tr>"
        return f"<p>{len(self):,} rows, {html.escape(self.method)}</p><table>{head}{body}{rest}</table>"


def strongest_columns(values: HostArray, n: int) -> HostArray:
    """Return the positions of the `n` largest absolute values of each row, largest first: int64, shape (n_rows, n)."""
    order: HostArray = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :n]
    return order


def join_explanations(parts: Sequence[Explanation]) -> Explanation:
    """Return one explanation of the rows of all parts, which belong to the same model."""
    if len(parts) == 1:
        return parts[0]
    from dataclasses import replace

    pairs = [part.interactions for part in parts if part.interactions is not None]
    return replace(
        parts[0],
        values=np.concatenate([part.values for part in parts]),
        interactions=np.concatenate(pairs) if pairs else None,
    )
