"""Conditions on the difference of two models, such as ``flips>2%``, which fail a check."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.inference.diff.prediction_comparison import PredictionComparison
from gpupipe.report.text import number

FORM = re.compile(r"\s*(.+?)(?:\.(low|high))?\s*(<=|>=|<|>)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(%?)\s*")
TESTS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
WHERE = "fail_on"


@dataclass(frozen=True)
class DiffCondition:
    """Condition ``NAME OPERATOR LIMIT``.

    ``flips`` is the number of rows whose decision differs; with ``%``, their share. The name of a metric is its
    difference, new minus old, and ``.low`` and ``.high`` are the ends of the interval of the difference.
    """

    text: str
    name: str
    end: str
    test: str
    limit: float
    is_share: bool

    @staticmethod
    def parse(text: str) -> DiffCondition:
        """Return the condition of a text; raise ConfigError if it is malformed.

        Examples
        --------
        >>> found = DiffCondition.parse("flips > 2%")
        >>> found.name, found.limit, found.is_share
        ('flips', 0.02, True)
        """
        found = FORM.fullmatch(text)
        fix = "write it as flips>2%, flips>100, roc_auc<-0.01 or roc_auc.high<0"
        if found is None:
            raise ConfigError(f"expected NAME, an operator and a number; got {text!r}", where=WHERE, fix=fix)
        name, end, test, limit, percent = found.groups()
        if (name == "flips" and end) or (name != "flips" and percent):
            what = "flips have no interval" if end else "metrics have no percentages"
            raise ConfigError(f"{what}; got {text!r}", where=WHERE, fix=fix)
        try:
            value = float(limit) / (100 if percent else 1)
        except ValueError:
            raise ConfigError(f"expected a number; got {limit!r}", where=WHERE, fix=fix) from None
        return DiffCondition(text.strip(), name, end or "difference", test, value, bool(percent))

    def found_in(self, compared: PredictionComparison | None) -> str:
        """Return what was found if the condition holds, else ``""``; an undefined metric holds every condition.

        Raise ConfigError if nothing was compared, or the metric was not.
        """
        if compared is None:
            what = f"{self.text!r} needs predictions, and none were compared"
            raise ConfigError(what, where=WHERE, fix="add a table, and compare models with the same target")
        if self.name == "flips":
            value = compared.flipped_share if self.is_share else float(compared.n_flipped)
            shown = f"{compared.n_flipped:,} of {compared.n_rows:,} rows flip ({100 * compared.flipped_share:.2f} %)"
        elif self.name in compared.metrics:
            value = getattr(compared.metrics[self.name], self.end)
            shown = f"{self.name} {self.end} is {'undefined' if math.isnan(value) else number(value)}"
        else:
            known = list(compared.metrics)
            hint = did_you_mean(self.name, ["flips", *known]) or f"use flips or one of {', '.join(known)}"
            fix = hint if known else "add the target to the table, or use flips"
            raise ConfigError(f"{self.name!r} was not compared", where=WHERE, fix=fix)
        return f"{self.text}: {shown}" if math.isnan(value) or TESTS[self.test](value, self.limit) else ""
