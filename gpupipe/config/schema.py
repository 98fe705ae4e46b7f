"""JSON Schema of the configuration, for completion and validation in editors."""

from __future__ import annotations

import re
from typing import Any

from pydantic.json_schema import models_json_schema

from gpupipe.config.features import requires_settings
from gpupipe.config.models import ModelEntry
from gpupipe.config.sections import Config
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.models import MODELS, ModelSettings
from gpupipe.registry import Registry
from gpupipe.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ATTRIBUTES = "Attributes\n----------\n"
SECTION = re.compile(r"^(\w+\n-{3,}|Examples:)$", re.MULTILINE)  # heading of a docstring's section
_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*) : .*\n((?: +.*\n?)+)", re.MULTILINE)  # numpydoc: names : type, and prose

JsonSchema = dict[str, Any]


def json_schema(broken: list[ConfigError] | None = None) -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of configurations, including short forms and installed plug-ins.

    Plug-ins that cannot be loaded or described are skipped; their errors are appended to `broken`.
    """
    own_ops, own_models = (_parts(registry, [] if broken is None else broken) for registry in (OPS, MODELS))
    parts: list[type[Settings]] = [Config, *own_ops.values(), *own_models.values()]
    references, definitions = models_json_schema([(part, "validation") for part in parts], by_alias=True)
    ops = {name: references[op, "validation"] for name, op in own_ops.items()}
    models = {name: references[model, "validation"] for name, model in own_models.items()}
    definitions = definitions["$defs"]
    config = definitions.pop("Config")
    definitions["ModelEntry"] = _model_entry(models, definitions["ModelEntry"]["properties"]["tune"])
    del definitions[ModelSettings.__name__]  # the base class, replaced by the models
    config["properties"]["features"]["items"] = _op_item(ops)
    _offer_a_single_model(config)
    share = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "The share to test on."}
    folds = {"type": "integer", "minimum": 2, "description": "The number of folds of a cross-validation."}
    split = config["properties"]["split"]
    config["properties"]["split"] = {"anyOf": [split, share, folds], "description": split["description"]}
    for reference in ops.values():
        _keep_summary(definitions[reference["$ref"].rpartition("/")[2]])
    config["properties"]["name"].pop("default", None)  # the default is the file's name
    for definition in definitions.values():
        _describe_fields(definition)
    schema = {"$schema": DIALECT, **config, "title": "gpupipe configuration", "$defs": definitions}
    prose: JsonSchema = _as_prose(schema)
    return prose


def _parts(registry: Registry[type[Any]], broken: list[ConfigError]) -> dict[str, type[Any]]:
    found = {}
    for name in registry.known_names():
        try:
            part = registry.get(name)
            if (plugin := registry.plugin(name)) is not None:
                with plugin.blame("has no JSON Schema"):
                    part.model_json_schema()
            found[name] = part
        except ConfigError as error:
            broken.append(error)
    return found


def _op_item(ops: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of an op: ``{name: settings}``, or the name of one that requires no settings."""
    bare = [name for name, op in OPS.items() if name in ops and not requires_settings(op)]
    settings = _closed(ops, minProperties=1, maxProperties=1)
    return {"title": "Feature op", "anyOf": [{"enum": bare}, settings]}


def _model_entry(models: dict[str, JsonSchema], tune: JsonSchema) -> JsonSchema:
    """Return the schema of a model in its three forms: its name, ``{name: params}``, ``{name:, params:}``.

    ``library`` instead of the parameters is short for ``{defaults: library}``.
    """
    label = {"type": "string", "description": ModelEntry.model_fields["label"].description}
    common = {"as": label, "tune": tune}
    forms: list[JsonSchema] = [{"enum": list(models)}]
    for name, reference in models.items():
        params = {"anyOf": [reference, {"enum": ["tuned", "library"]}, {"type": "null"}]}
        forms.append(_closed({name: params, **common}, required=[name]))
        forms.append(_closed({"name": {"const": name}, "params": params, **common}, required=["name"]))
    return {"title": "Model", "description": ModelEntry.__doc__, "anyOf": forms}


def _closed(properties: dict[str, JsonSchema], **rules: Any) -> JsonSchema:
    return {"type": "object", "properties": properties, "additionalProperties": False, **rules}


def _offer_a_single_model(config: JsonSchema) -> None:
    entry = {"$ref": "#/$defs/ModelEntry"}
    models = config["properties"]["models"]
    for key in ("type", "items"):
        del models[key]
    models["anyOf"] = [{"type": "array", "items": entry}, entry]
    config["properties"]["model"] = {**entry, "description": "A single model, instead of `models`."}
    config["not"] = {"required": ["model", "models"]}


def _keep_summary(definition: JsonSchema) -> None:
    """Reduce the description of an op to its first paragraph: the details and examples are on the op's page."""
    for form in (definition, *definition.get("anyOf", ())):
        if "description" in form:
            form["description"] = form["description"].partition("\n\n")[0]


def _describe_fields(definition: JsonSchema) -> None:
    """Describe fields that have no description by the ``Attributes`` of the class docstring."""
    fields = definition.get("properties", {})
    _, _, attributes = definition.get("description", "").partition(ATTRIBUTES)
    for names, text in _ATTRIBUTE.findall(attributes):
        for name in names.split(", "):
            fields.get(name, {}).setdefault("description", text)


def _as_prose(value: Any) -> Any:
    """Return a schema with each description on one line and without the sections of a docstring, for editors."""
    if isinstance(value, list):
        return [_as_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _as_prose(item) for key, item in value.items()}
    if isinstance(kept.get("description"), str):
        kept["description"] = " ".join(SECTION.split(kept["description"], maxsplit=1)[0].split())
    return kept
