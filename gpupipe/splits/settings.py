"""Settings of the ``split:`` section."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpupipe.settings import Settings
from gpupipe.units import parse_time_us

Level = str | int | float | bool


def _plain(value: Any) -> Any:
    """Return a date or number from YAML as text."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def parse_cutoff(cutoff: str) -> tuple[float, bool]:
    """Return a cutoff as a number, times as microseconds since 1970-01-01 UTC, and True if it was a time.

    Raises
    ------
    ValueError
        If it is neither a number nor a time.
    """
    try:
        return float(cutoff), False
    except ValueError:
        pass
    try:
        return parse_time_us(cutoff), True
    except ValueError:
        raise ValueError(f"expected a number or a date such as 2012-10-01; got {cutoff!r}") from None


def _time_or_number(cutoff: str) -> str:
    parse_cutoff(cutoff)
    return cutoff


class Predefined(Settings):
    """A column that assigns each row to training or test.

    Attributes
    ----------
    name : str
        The column of the table.
    train, test : list
        Levels of the column for training and test rows. Default of `train`: all levels that are not in `test`. Rows
        with other levels are not used.
    """

    name: Annotated[str, Field(min_length=1)]
    train: Annotated[list[Level], Field(min_length=1)] | None = None
    test: Annotated[list[Level], Field(min_length=1)]


class Split(Settings):
    """Split of the rows into training and test rows.

    Attributes
    ----------
    test_size : float
        Share of the rows to test on, between 0 and 1.
    stratify : bool, optional
        Keep the class proportions in training and test rows. Default: true for classification without `group`, `time`
        and `column`.
    group : str, optional
        Column whose equal values are kept together, in training or in test.
    time : str, optional
        Column by which the latest rows are the test rows: a share of `test_size`, or all rows from `cutoff` on.
    cutoff : str, optional
        First time or number of the test rows, with `time`: ``"2012-10-01"``, ``"2012-10-01T12:00"`` (UTC unless it has
        a zone), or a number for a numeric column.
    cv : int, optional
        Number of cross-validation folds. The folds are those of scikit-learn's StratifiedKFold, KFold, GroupKFold (with
        `group`) or TimeSeriesSplit (with `time`). Default: a single split.
    shuffle : bool
        Shuffle the rows before splitting. If false, the last rows of the table are the test rows, and folds are blocks
        of rows.
    seed : int, optional
        Random seed of the split. Default: the seed of the configuration.
    column : Predefined, optional
        Predefined split: a column that assigns rows to training and test.
    """

    test_size: Annotated[float, Field(gt=0, lt=1)] = 0.2
    stratify: bool | None = None
    group: str | None = None
    time: str | None = None
    cutoff: Annotated[str, BeforeValidator(_plain), AfterValidator(_time_or_number)] | None = None
    cv: Annotated[int, Field(ge=2)] | None = None
    shuffle: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    column: Predefined | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        kinds = [name for name in ("group", "time", "column") if getattr(self, name) is not None]
        problems = [
            (len(kinds) > 1, f"{' and '.join(kinds)} cannot be combined: choose one"),
            (
                self.stratify is True and bool(kinds),
                f"stratify cannot be combined with {' and '.join(kinds)}: remove one",
            ),
            (
                self.cutoff is not None and self.time is None,
                "cutoff needs time: set time to the column to compare with",
            ),
            (
                self.cutoff is not None and self.cv is not None,
                "cutoff defines one split, cv defines several: remove one",
            ),
            (
                self.column is not None and self.cv is not None,
                "column defines one split, cv defines several: remove one",
            ),
            (
                self.stratify is True and not self.shuffle and self.cv is None,
                "stratify needs shuffle: set shuffle: true, or stratify: false",
            ),
        ]
        for is_wrong, message in problems:
            if is_wrong:
                raise ValueError(message)
        return self
