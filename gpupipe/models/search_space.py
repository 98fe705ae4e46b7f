"""Search spaces of tuning: the range or the choices of each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gpupipe.models.contradictions import as_text, settle
from gpupipe.models.scikit_learn.settings.estimator import Estimator
from gpupipe.settings import Settings

if TYPE_CHECKING:
    from gpupipe.models.base import ModelSettings

Number = Annotated[int | float, Field(allow_inf_nan=False)]
Choice = bool | int | float | str | None


class SearchRange(Settings):
    """Interval of a numeric parameter, both ends included."""

    low: Number = Field(description="Smallest value that is tried.")
    high: Number = Field(description="Largest value that is tried.")
    log: bool = Field(False, description="Draw the logarithm uniformly; for parameters that span powers of ten.")
    relative_to: Literal["target"] | None = Field(
        None, description="target: both ends are multiples of the standard deviation of the target. null: plain values."
    )

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"expected low below high; got low {self.low:g} and high {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"expected low above 0 with log: true; got {self.low:g}")
        return self


class SearchChoices(Settings):
    """Values of a parameter, tried without an order."""

    choices: Annotated[tuple[Choice, ...], Field(min_length=2)] = Field(description="Values that are tried.")


def _pair_as_range(value: Any) -> Any:
    """Return ``[3, 10]`` as ``{low: 3, high: 10}``."""
    if isinstance(value, list | tuple):
        if len(value) != 2 or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in value):
            raise ValueError("expected two numbers, [low, high]; for other lists write {choices: [...]}")
        return {"low": value[0], "high": value[1]}
    return value


def _kind_of(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Settings) else ()
    return "choices" if "choices" in keys else "range"


def _read(value: Any) -> Any:
    """Return the settings of a range or of choices, so that an error names only the fields of that form."""
    if isinstance(value, Settings):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("expected {low: 0.01, high: 0.3}, [low, high] or {choices: [...]}")
    return (SearchChoices if _kind_of(value) == "choices" else SearchRange).model_validate(value)


SearchDimension = Annotated[SearchRange | SearchChoices, BeforeValidator(_read), BeforeValidator(_pair_as_range)]
"""One searched parameter."""

SearchSpace = Mapping[str, SearchRange | SearchChoices]
"""Name of a parameter to its range or choices."""


def searched_values(settings: ModelSettings) -> Mapping[str, Any]:
    """Return the values of all parameters that can be searched: fields, or the arguments of a custom estimator."""
    if isinstance(settings, Estimator):
        return settings.params
    return {name: getattr(settings, name) for name in type(settings).model_fields if name != "defaults"}


def with_values(settings: ModelSettings, values: Mapping[str, Any]) -> ModelSettings:
    """Return the settings with other values of searched parameters, validated.

    Parameters that contradict the searched values, or that these make useless, have the defaults of the library. Raise
    pydantic.ValidationError if the model refuses a value, or values together.
    """
    if isinstance(settings, Estimator):
        values = {"params": {**settings.params, **values}}
    given = {name: getattr(settings, name) for name in settings.model_fields_set} | dict(values)
    fields = type(settings).model_fields
    if settings.contradictions:
        library = {name: field.default for name, field in fields.items()}
        found, _ = settle({**library, **given}, list(values), library, settings.contradictions, keeps_field=True)
        given = {name: value for name, value in found.items() if name in given or value != library[name]}
    return type(settings).model_validate({fields[name].alias or name: value for name, value in given.items()})


def excludes(settings: ModelSettings, name: str) -> str:
    """Return the stated parameter, as text, that excludes other values of the parameter `name`; "" for none."""
    for each in settings.contradictions:
        if each.other == name and each.field in settings.model_fields_set and not callable(each.allowed):
            value = getattr(settings, each.field)
            if value is not None and value in each.values:
                return f"{each.field}: {as_text(value)}"
    return ""


def is_whole(settings: ModelSettings, name: str, searched: SearchRange) -> bool:
    """Return whether a range has whole numbers only: its ends are whole, and the parameter takes no fraction."""
    if not isinstance(searched.low, int) or not isinstance(searched.high, int):
        return False
    if isinstance(settings, Estimator):
        return True
    try:
        with_values(settings, {name: searched.low + 0.5})
    except ValueError:
        return True
    return False
