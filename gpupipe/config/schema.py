"""The JSON Schema of the configuration, with which an editor completes and explains."""

from __future__ import annotations

from typing import Any

from gpupipe.config.sections import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12), short forms included."""
    schema = Config.model_json_schema(by_alias=True)
    properties = schema["properties"]
    models = properties["models"]
    entry = models["items"]
    models["anyOf"] = [{"type": "array", "items": entry}, entry]
    del models["items"], models["type"]
    properties["model"] = {**entry, "description": "A single model, in place of models."}
    properties["name"].pop("default", None)  # it is the file's name
    schema = {"$schema": DIALECT, **schema, "title": "gpupipe configuration"}
    schema["not"] = {"required": ["model", "models"]}
    described: dict[str, Any] = _without_reference_sections(schema)
    return described


def _without_reference_sections(value: Any) -> Any:
    """Keep of each description what stands before a numpydoc section; joined, as editors show the lines as they are."""
    if isinstance(value, list):
        return [_without_reference_sections(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_reference_sections(item) for key, item in value.items()}
    if isinstance(kept.get("description"), str):
        prose = kept["description"].split("\n----")[0]
        lines = prose.splitlines()[:-1] if prose != kept["description"] else prose.splitlines()
        kept["description"] = " ".join(" ".join(lines).split())
    return kept
