"""The ``models:`` section: the candidates of the leaderboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.config.registered_parts import combine_errors, find_part, read_settings
from gpupipe.config.tuning import Tune, read_tune, tune_errors, with_space
from gpupipe.models import MODELS, ModelSettings
from gpupipe.settings import Settings


class ModelEntry(Settings):
    """Candidate of the leaderboard: a model, its parameters, and its label in the results."""

    name: str = Field(description="Name of the model, such as `xgboost`.")
    label: str = Field(
        default="", alias="as", description="Label in the results; must be unique. Default: the name of the model."
    )
    params: SerializeAsAny[ModelSettings] = Field(
        default_factory=dict,  # validated as the named model's parameters below
        validate_default=True,
        description="Parameters of the model, with scikit-learn's names. Parameters not listed have their defaults.",
    )

    tune: Annotated[Tune | None, BeforeValidator(read_tune, json_schema_input_type=Tune | int | bool | None)] = Field(
        default=None,
        description="Search for the parameters that the entry does not state: a number of trials, true, or the "
        "settings of the search. null: no search.",
    )

    @model_validator(mode="before")
    @classmethod
    def _label_is_the_name_unless_stated(cls, entry: Any) -> Any:
        if isinstance(entry, ModelSettings):  # from Python
            name = MODELS.name_of(type(entry))
            return {"name": name, "as": name, "params": entry}
        if isinstance(entry, dict) and not entry.get("as"):
            return {**entry, "as": entry.get("name", "")}
        return entry

    @field_validator("name")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        find_part(MODELS, name)
        return name

    @field_validator("params", mode="before")
    @classmethod
    def _are_those_of_the_named_model(cls, params: Any, info: ValidationInfo) -> Any:
        if isinstance(params, ModelSettings):
            return params
        if "name" not in info.data:
            return ModelSettings()  # the error about the name is enough
        model = MODELS.get(info.data["name"])
        _refuse_entry_keys(params, model)
        return read_settings(model, params)

    @model_validator(mode="after")
    def _can_be_tuned(self) -> Self:
        if self.tune is not None:
            if errors := list(tune_errors(self.name, self.params, self.tune)):
                raise combine_errors("ModelEntry", errors)
            # Here, because a run fills in defaults: which parameters the entry states is known only now.
            self.__dict__["tune"] = with_space(self.name, self.params, self.tune)
        return self


def _refuse_entry_keys(params: Any, model: type[ModelSettings]) -> None:
    """Raise if keys of the entry are among the parameters, because they are indented too far."""
    given = params if isinstance(params, dict) else {}
    wrong = [key for key in ("tune", "as") if key in given and key not in model.model_fields]
    if wrong:
        message = "is not a parameter of the model but a key of its entry: indent it like the name of the model"
        error = PydanticCustomError("entry_key", "{message}", {"message": message})
        raise combine_errors("ModelEntry", [InitErrorDetails(type=error, loc=(key,), input=given) for key in wrong])


def weight_errors(models: Sequence[ModelEntry]) -> list[InitErrorDetails]:
    """Return an error for each entry whose model takes no row weights, for a configuration with ``source.weight``."""
    what = "{name} takes no sample weights, and source.weight is set; remove one of them"
    return [
        InitErrorDetails(type=PydanticCustomError("weight", what, {"name": entry.name}), loc=("models", i), input=None)
        for i, entry in enumerate(models)
        if not entry.params.takes_sample_weight
    ]


def refuse_shared_labels(entries: tuple[ModelEntry, ...]) -> tuple[ModelEntry, ...]:
    """Return `entries`; raise if two have the same label, because they would overwrite each other's results."""
    labels = [entry.label for entry in entries]
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(
                "shared_label",
                "duplicate label {label}, also used by models[{first}]; set another one: {line}",
                {"label": repr(entry.label), "first": labels.index(entry.label), "line": _named_line(entry, labels)},
            ),
            loc=(i,),
            input=entry.label,
        )
        for i, entry in enumerate(entries)
        if entry.label in labels[:i]
    ]
    if errors:
        raise combine_errors("models", errors)
    return entries


def _named_line(entry: ModelEntry, labels: list[str]) -> str:
    """Return an entry as YAML with a unique label."""
    given = entry.params.model_dump(mode="json", by_alias=True, exclude_unset=True)
    params = ", ".join(f"{name}: {json.dumps(value)}" for name, value in given.items())
    label = next(f"{entry.name}_{n}" for n in count(2) if f"{entry.name}_{n}" not in labels)
    return f"- {{{entry.name}: {{{params}}}, as: {label}}}"
