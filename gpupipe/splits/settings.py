"""Settings of the ``split:`` section."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpupipe.settings import Settings
from gpupipe.units import parse_duration_us, parse_time_us

Level = str | int | float | bool
EXPANDING, ROLLING = "expanding", "rolling"


@dataclass(frozen=True)
class Length:
    """Length of a gap or window of training rows.

    Units are ``"us"``: microseconds; ``"number"``: the unit of a numeric time column; ``"rows"``: rows in order of
    time.
    """

    size: float
    unit: Literal["us", "number", "rows"]


def parse_length(text: str) -> Length:
    """Return a length such as ``7d``, ``500 rows``, or ``4`` in the unit of a numeric time column.

    Raise ValueError if it is another text, or not positive.

    Examples
    --------
    >>> parse_length("500 rows"), parse_length("4"), parse_length("1h").size
    (Length(size=500, unit='rows'), Length(size=4.0, unit='number'), 3600000000)
    """
    count, _, unit = text.strip().partition(" ")
    if unit.strip() in ("row", "rows") and count.isdecimal() and int(count) > 0:
        return Length(int(count), "rows")
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if 0 < number < float("inf"):
            return Length(number, "number")
    try:
        return Length(parse_duration_us(text), "us")
    except ValueError:
        what = "a duration such as 7d, a number of rows such as 500 rows, or a positive number for a numeric column"
        raise ValueError(f"expected {what}; got {text!r}") from None


def _plain(value: Any) -> Any:
    """Return a date or number from YAML as text."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def parse_cutoff(cutoff: str) -> tuple[float, bool]:
    """Return a cutoff as a number, times as microseconds since 1970-01-01 UTC, and True if it was a time.

    Raise ValueError if it is neither a number nor a time.
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


def _length(text: str) -> str:
    parse_length(text)
    return text


def _window(text: str) -> str:
    if text in (EXPANDING, ROLLING):
        return text
    try:
        return _length(text)
    except ValueError as error:
        raise ValueError(str(error).replace("expected", f"expected {EXPANDING}, {ROLLING},")) from None


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
        Column whose equal values are kept together, in training or in test. With `time`, `test_size` is also the share
        of the later groups that are tested, drawn at random: see `purge`.
    time : str, optional
        Column by which the latest rows are the test rows: a share of `test_size`, or all rows from `cutoff` on. Rows
        with the time of the first test row are test rows too.
    cutoff : str, optional
        First time or number of the test rows, with `time`: ``"2012-10-01"``, ``"2012-10-01T12:00"`` (UTC unless it has
        a zone), or a number for a numeric column.
    gap : str, optional
        Rows before the first test row that are not used, with `time`: a duration such as ``7d``, a number in the unit
        of a numeric column, or ``500 rows``. Set it to the time after which a target is known.
    window : str
        Rows to train on, with `time`. ``expanding``: all rows before the gap. ``rolling``: as many rows as the first of
        the `cv` folds has. Or a length as for `gap`: ``90d``.
    purge : str, optional
        With `group` and `time`, the side on which rows are removed if their group is on both: ``train`` or ``test``.
        ``test`` tests on groups that are new. ``train`` suits groups that last a short time, such as sessions. Default:
        the groups to test are drawn at random from those with later rows, and the others are trained on, so that test
        rows are a sample of all later ones.
    cv : int, optional
        Number of cross-validation folds. The folds are those of scikit-learn's StratifiedKFold, KFold, GroupKFold (with
        `group`) or TimeSeriesSplit (with `time`, if no two rows have the same time). Default: a single split.
    repeats : int
        Number of cross-validations, each with other random folds.
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
    gap: Annotated[str, BeforeValidator(_plain, str | float), AfterValidator(_length)] | None = None
    window: Annotated[str, BeforeValidator(_plain, str | float), AfterValidator(_window)] = EXPANDING
    purge: Literal["train", "test"] | None = None
    cv: Annotated[int, Field(ge=2)] | None = None
    repeats: Annotated[int, Field(ge=1)] = 1
    shuffle: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    column: Predefined | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        kinds = [name for name in ("group", "time", "column") if getattr(self, name) is not None]
        problems = [
            (
                self.column is not None and len(kinds) > 1,
                f"{' and '.join(kinds)} cannot be combined: remove column, or the others",
            ),
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
                self.time is None and (self.gap is not None or self.window != EXPANDING),
                f"{'window' if self.gap is None else 'gap'} needs time: set time to the column that orders the rows",
            ),
            (
                self.window == ROLLING and self.cv is None,
                "window: rolling needs cv: set cv, or a length of the window such as 90d",
            ),
            (
                self.purge is not None and (self.group is None or self.time is None),
                "purge needs group and time: set both, or remove purge",
            ),
            (
                self.repeats > 1 and (self.cv is None or self.time is not None or not self.shuffle),
                "repeats needs random folds: set cv, without time and shuffle: false",
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
