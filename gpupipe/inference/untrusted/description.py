"""Model metadata sent by the child process: whatever is needed to read rows and to name predictions."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.errors import GpupipeError
from gpupipe.features.history.derivation import Derivation, DerivedTable
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.inference.prediction.input_source import check_reading, main_source
from gpupipe.io.settings import TableSource
from gpupipe.model_parts.part_checks import read_decision, read_goal, read_importances, read_names, read_schema
from gpupipe.model_parts.part_shapes import COLUMN, MANIFEST
from gpupipe.rules.model_rules import ServedRules
from gpupipe.table.schema import Schema

# Entries of manifest.json that the parent uses; `read_description` checks each.
KEPT = (
    "task", "target", "labels", "label_type", "quantiles", "targets", "reading", "data", "importances", "metrics",
    "name", "created", "gpupipe", "manifest_sha256", "reason_codes",
)  # fmt: skip

# Rules and steps run in this process, without a time limit, so their number and length are limited.
MOST_RULES = 64  # per column
MOST_FORMULAS = 1_000  # per further table
MOST_TEXT = 20_000  # characters of a filter or formula
QUADRATIC = ("idna", "punycode")  # encodings of short names: their decoders take minutes for a file


@dataclass(frozen=True)
class DescribedFeatures:
    """Features of a model in another process.

    `inputs` and `names` are input columns and feature names. `input_schema` has the encoded input columns, without
    their levels, and `derivation` the further tables, without ops.
    """

    inputs: tuple[str, ...]
    names: tuple[str, ...]
    input_schema: Schema
    derivation: Derivation | None = None


def describe(model: LoadedModel) -> dict[str, Any]:
    """Return the description of a model as JSON values."""
    features, manifest = model.features, model.manifest
    tables = None
    if features.derivation is not None:
        tables = {
            name: {
                **_describe_schema(table.schema),
                **{key: list(getattr(table, key)) for key in ("inputs", "left", "right")},
            }
            for name, table in features.derivation.tables.items()
        }
    return {
        "manifest": {key: manifest[key] for key in KEPT if key in manifest},
        "name": manifest.get("model", {}).get("name"),
        "decision": model.decision.uncalibrated.to_json(),
        "inputs": list(features.inputs),
        "names": list(features.names),
        **_describe_schema(features.input_schema),
        "tables": tables,
    }


def _describe_schema(schema: Schema) -> dict[str, Any]:
    return {"schema": schema.to_json(), "coded": [column.name for column in schema if column.levels is not None]}


def read_description(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a `LoadedModel`, by name, from the JSON values of `describe`.

    Raise ValueError if the description is malformed.
    """
    try:
        return _read_description(document)
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError, GpupipeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _read_description(document: Mapping[str, Any]) -> dict[str, Any]:
    manifest, name = document["manifest"], document["name"]
    check_shape(name, (str, None), "name")
    shape = {key: shape for key, shape in MANIFEST.items() if str(key).removesuffix("?") in KEPT}
    check_shape(manifest, shape | {"manifest_sha256": str})
    goal = read_goal(manifest)
    read_importances(manifest.get("importances"))
    rules = tuple(map(ServedRules.from_json, manifest["data"]))
    inputs, names = read_names(document["inputs"], "the inputs"), read_names(document["names"], "the names")
    features = DescribedFeatures(inputs, names, _schema(document), _derivation(document["tables"]))
    events = ServedEvents.from_json(manifest["reading"]["events"], features.derivation)
    check_reading(manifest["reading"], features, events)
    _check_costs(main_source("any", manifest["reading"], features, rules), rules, events)
    decision = read_decision(document["decision"], goal)
    if decision.calibrates:
        raise ValueError("the predictions of the child are calibrated already")
    return {
        "goal": goal, "features": features, "decision": decision, "rules": rules, "events": events,
        "manifest": {**manifest, "model": {"name": name or "model"}},
    }  # fmt: skip


def _check_costs(source: TableSource, rules: Sequence[ServedRules], events: ServedEvents) -> None:
    """Raise ValueError if the settings of the model could make row preparation take forever."""
    column, n_rules = max(Counter(each.column for each in rules).items(), key=lambda item: item[1], default=("", 0))
    if n_rules > MOST_RULES:
        raise ValueError(f"column {column!r:.40} has {n_rules} rules; expected at most {MOST_RULES}")
    for name, table in events.tables.items():
        texts = [table.where or "", *table.compute.values()]
        if len(table.compute) > MOST_FORMULAS or max(map(len, texts)) > MOST_TEXT:
            limits = f"{MOST_FORMULAS:,} formulas of at most {MOST_TEXT:,} characters"
            raise ValueError(f"table {name!r:.40}: expected at most {limits}")
    for each in (source, *events.tables.values()):
        if codecs.lookup(each.csv.encoding).name in QUADRATIC:
            raise ValueError(f"the encoding {each.csv.encoding!r} is not allowed")


def _derivation(tables: Any) -> Derivation | None:
    if tables is None:
        return None
    found = {
        name: DerivedTable(_schema(table), *(read_names(table[key], key) for key in ("inputs", "left", "right")))
        for name, table in tables.items()
    }
    return Derivation((), Schema(()), (), found, {})


def _schema(document: Mapping[str, Any]) -> Schema:
    check_shape(document["schema"], [COLUMN], "schema")
    return read_schema(document["schema"], {name: [] for name in read_names(document["coded"], "the coded columns")})
