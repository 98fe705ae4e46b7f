"""The ``models:`` section: the entries of the leaderboard."""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetJsonSchemaHandler, SerializeAsAny, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from gpupipe.config.parts import find_part, json_schema_of, located, read_settings
from gpupipe.models import MODELS, Model
from gpupipe.settings import Settings


class ModelEntry(Settings):
    """A model of the leaderboard: its name, its parameters, and what it is called in the results."""

    name: str = Field(description="Which model.")
    label: str = Field(default="", alias="as", description="What it is called in the results; its name unless stated.")
    params: SerializeAsAny[Model] = Field(
        default_factory=dict,  # becomes the named model's parameters below
        validate_default=True,
        description="Its parameters, under scikit-learn's names.",
    )

    @model_validator(mode="before")
    @classmethod
    def _label_is_the_name_unless_stated(cls, entry: Any) -> Any:
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
        if isinstance(params, Model):
            return params
        if "name" not in info.data:
            return Model()  # the name's own error is enough
        return read_settings(MODELS.get(info.data["name"]), params)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        forms: list[JsonSchemaValue] = [{"enum": list(MODELS.names())}]
        for name, model in MODELS.items():
            params = {"anyOf": [json_schema_of(model, handler), {"type": "null"}]}
            forms.append(_closed({"name": {"const": name}, "params": params}, required="name"))
            forms.append(_closed({name: params}, required=name))
        return {"title": "Model", "description": cls.__doc__, "anyOf": forms}


def _closed(properties: JsonSchemaValue, required: str) -> JsonSchemaValue:
    label = {"type": "string", "description": ModelEntry.model_fields["label"].description}
    return {
        "type": "object",
        "properties": {**properties, "as": label},
        "required": [required],
        "additionalProperties": False,
    }


def refuse_shared_labels(entries: tuple[ModelEntry, ...]) -> tuple[ModelEntry, ...]:
    """Return `entries`; two with one label would overwrite each other's results."""
    labels = [entry.label for entry in entries]
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(
                "shared_label",
                "a model before it is called {label} too; tell them apart: as: another-name",
                {"label": repr(label)},
            ),
            loc=(i,),
            input=label,
        )
        for i, label in enumerate(labels)
        if label in labels[:i]
    ]
    if errors:
        raise located("models", errors)
    return entries
