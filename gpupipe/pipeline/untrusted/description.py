"""Description of a model, from the child that holds it: all that reading rows and naming predictions needs."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import GpupipeError
from gpupipe.features.history.derivation import Derivation, DerivedTable
from gpupipe.io.settings import TableSource
from gpupipe.pipeline.model.events import ServedEvents
from gpupipe.pipeline.model.input_source import check_reading, main_source
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.model.part_checks import read_decision, read_goal, read_importances, read_names, read_schema
from gpupipe.pipeline.rules import ServedRules
from gpupipe.table.schema import Schema

# Entries of manifest.json that the parent uses; `read_description` checks each.
KEPT = ("task", "target", "labels", "reading", "data", "importances", "metrics", "created", "gpupipe")

# This process applies rules and steps to the rows, without a time limit: their number and length are bounded.
MOST_RULES = 64  # of a column
MOST_FORMULAS = 1_000  # of a further table
MOST_TEXT = 20_000  # characters of a filter or formula
QUADRATIC = ("idna", "punycode")  # encodings of short names, whose decoders take minutes for a file


@dataclass(frozen=True)
class DescribedFeatures:
    """The features of a model that another process holds.

    Attributes
    ----------
    inputs, names : tuple of str
        Input columns and feature names.
    input_schema : Schema
        The encoded input columns, without their levels.
    derivation : Derivation, optional
        Its further tables; it has no ops.
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
                **_described_schema(table.schema),
                **{key: list(getattr(table, key)) for key in ("inputs", "left", "right")},
            }
            for name, table in features.derivation.tables.items()
        }
    return {
        "manifest": {key: manifest[key] for key in KEPT if key in manifest},
        "sha256": manifest.get("manifest_sha256"),
        "name": manifest.get("model", {}).get("name"),
        "threshold": model.decision.threshold,
        "inputs": list(features.inputs),
        "names": list(features.names),
        **_described_schema(features.input_schema),
        "tables": tables,
    }


def _described_schema(schema: Schema) -> dict[str, Any]:
    return {"schema": schema.to_json(), "coded": [column.name for column in schema if column.levels is not None]}


def read_description(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a `LoadedModel` that JSON values from the child describe, by name.

    Raises
    ------
    ValueError
        If it is not one of `describe`.
    """
    try:
        return _read_description(document)
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError, GpupipeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _read_description(document: Mapping[str, Any]) -> dict[str, Any]:
    said, name = document["manifest"], document["name"]
    if not isinstance(said, dict) or set(said) - {*KEPT} or not isinstance(name, str | None):
        raise ValueError("expected the manifest and the name of a model")
    for key in ("created", "gpupipe"):
        if not isinstance(said.get(key, ""), str):
            raise ValueError(f"expected a text as {key}")
    metrics = said.get("metrics", {})
    if not isinstance(metrics, dict) or any(type(value) not in (int, float, type(None)) for value in metrics.values()):
        raise ValueError("expected metrics with their values")
    goal = read_goal(said)
    read_importances(said.get("importances"))
    rules = tuple(map(ServedRules.from_json, said.get("data", [])))
    inputs, names = read_names(document["inputs"], "the inputs"), read_names(document["names"], "the names")
    features = DescribedFeatures(inputs, names, _schema(document), _derivation(document["tables"]))
    events = ServedEvents.from_json(said["reading"]["events"], features.derivation)
    check_reading(said["reading"], features, events)
    _check_costs(main_source("any", said["reading"], features, rules), rules, events)
    decision = read_decision({"threshold": document["threshold"], "calibration": None}, goal)
    return {
        "goal": goal, "features": features, "decision": decision, "rules": rules, "events": events,
        "manifest": {**said, "model": {"name": name or "model"}},
    }  # fmt: skip


def _check_costs(source: TableSource, rules: Sequence[ServedRules], events: ServedEvents) -> None:
    """Raise ValueError if preparing rows as the model says could take this process for ever."""
    column, n_rules = max(Counter(each.column for each in rules).items(), key=lambda item: item[1], default=("", 0))
    if n_rules > MOST_RULES:
        raise ValueError(f"column {column!r:.40} has {n_rules} rules; expected at most {MOST_RULES}")
    for name, table in events.tables.items():
        texts = [table.where or "", *table.compute.values()]
        if len(table.compute) > MOST_FORMULAS or max(map(len, texts)) > MOST_TEXT:
            limits = f"{MOST_FORMULAS} formulas of {MOST_TEXT:,} characters"
            raise ValueError(f"table {name!r:.40} is computed by more than {limits}")
    for each in (source, *events.tables.values()):
        if codecs.lookup(each.csv.encoding).name in QUADRATIC:
            raise ValueError(f"the encoding of tables is {each.csv.encoding!r}")


def _derivation(tables: Any) -> Derivation | None:
    if tables is None:
        return None
    found = {
        name: DerivedTable(_schema(table), *(read_names(table[key], key) for key in ("inputs", "left", "right")))
        for name, table in tables.items()
    }
    return Derivation((), Schema(()), (), found, {})


def _schema(document: Mapping[str, Any]) -> Schema:
    return read_schema(document["schema"], {name: [] for name in read_names(document["coded"], "the coded columns")})
