"""Sources of the tables that a model scores, with the reader settings and text columns of the training.

CSV has no types, and the values of one batch must not decide how it is read: in a batch of digits only, the level
``00501`` would be read as the number 501, which is an unseen level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.settings import JoinedTable, TableSource, is_read_as_text
from gpupipe.rules.model_rules import ServedRules
from gpupipe.table.schema import Column, Schema
from gpupipe.table.time_texts import is_strict
from gpupipe.units import TICKS_PER_SECOND

if TYPE_CHECKING:
    from gpupipe.config import Config
    from gpupipe.inference.untrusted.description import DescribedFeatures

TEXT_TYPES = ("string", "large_string")


def describe_reading(config: Config, features: FittedFeatures, schema: Schema) -> dict[str, Any]:
    """Return the manifest section ``reading``: the reader settings for tables to score.

    `schema` is that of the whole training table; the schema of the features lacks keys and raw texts.
    """
    return {
        "csv": config.source.csv.model_dump(mode="json"),
        "strip": config.source.strips_typed_files,
        "keys": [name for name in features.inputs if name in config.source.keys],
        "isolate": any(source.isolate for source in (config.source, *config.tables.values())),
        "events": ServedEvents.of(config, features.derivation).to_json(),
        "texts": [name for name in features.inputs if name in schema and _is_text(schema[name])],
    }


def check_reading(
    reading: Mapping[str, Any], features: FittedFeatures | DescribedFeatures, events: ServedEvents
) -> None:
    """Raise ValueError unless the section ``reading`` of a manifest is valid; its shape has been checked."""
    main_source("any", reading, features)
    for name in events.tables:
        event_source("any", events, reading, features, name)


def main_source(
    path: str,
    reading: Mapping[str, Any],
    features: FittedFeatures | DescribedFeatures,
    rules: Sequence[ServedRules] = (),
) -> TableSource:
    """Return the source of rows to score.

    `path` is a file, glob, folder or URL. `reading` is the manifest section ``reading``.
    """
    known = [column.source for column in features.input_schema]
    stated = {each.column: each.declared for each in rules if each.column not in known}
    ruled = {name for name, it in stated.items() if is_read_as_text(it)}
    texts = sorted({*_main_texts(reading, features), *ruled})
    ticks = {c.source: c.time_format for c in features.input_schema if c.time_format in TICKS_PER_SECOND}
    schema = {name: {"kind": "datetime", "format": unit} for name, unit in ticks.items()} | dict.fromkeys(texts, "text")
    schema |= dict.fromkeys(features.input_schema.lists, "list")
    settings = {"path": path, "csv": reading["csv"], "schema": schema}
    source = TableSource.model_validate({**settings, "isolate": reading.get("isolate", False)})
    return source.read_as(reading.get("keys", ()), keeps_blanks=not strips_texts(reading))


def strips_texts(reading: Mapping[str, Any]) -> bool:
    """Return whether texts of a model are stripped on every road; earlier versions stripped those of CSV files only."""
    return bool(reading.get("strip", False))


def event_source(
    path: str, events: ServedEvents, reading: Mapping[str, Any], features: FittedFeatures | DescribedFeatures, name: str
) -> JoinedTable:
    """Return the source of the event table `name`, with keys of the same kind as in the main table."""
    settings, main = events.tables[name], _main_texts(reading, features)
    texts = set[str]()
    if "keys" not in reading:  # versions without it compare keys by their types
        texts = {right for left, right in zip(settings.on.left, settings.on.right, strict=True) if left in main}
    if features.derivation is not None and name in features.derivation.tables:
        texts |= _texts_of(features.derivation.tables[name].schema)
    made = {*settings.compute, *(() if settings.group_by is None else settings.group_by.made())}
    declared = {text: ColumnSettings(kind="text") for text in sorted(texts - made)} | settings.declared
    isolate = reading.get("isolate", False)
    source = settings.moved_to(path, settings.format).model_copy(update={"declared": declared, "isolate": isolate})
    return source.read_as(reading.get("keys", ()), keeps_blanks="strip" not in reading)


def _main_texts(reading: Mapping[str, Any], features: FittedFeatures | DescribedFeatures) -> set[str]:
    return {*reading.get("texts", ()), *_texts_of(features.input_schema)}


def _texts_of(columns: Iterable[Column]) -> set[str]:
    return {column.source for column in columns if _is_text(column)}


def _is_text(column: Column) -> bool:
    # The reader parses numeric columns that were text in training (because of missing-value markers, for example).
    # Levels and flags are texts, whatever their type in training: the values of a file must not decide how it is read.
    is_level = column.kind not in ("numeric", "datetime") and column.has_normal_form
    has_format = is_strict(column.time_format) or column.number_format is not None
    return has_format or is_level or (column.kind != "numeric" and column.dtype in TEXT_TYPES)
