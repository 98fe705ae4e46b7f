"""Shapes of manifest.json and the JSON parts of a model directory; see `gpupipe.artifact.untrusted.shapes`.

Entries that earlier versions did not write are optional. Later versions may add entries to the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from gpupipe.artifact import manifest
from gpupipe.artifact.untrusted.shapes import Shape
from gpupipe.models.files.description import ESTIMATOR
from gpupipe.table.schema import KINDS
from gpupipe.tasks import Task

MOST_BUCKETS = 1 << 24  # float32 holds every integer below it
COUNT = range(2**63)
N_CODES = range(MOST_BUCKETS + 1)
NUMBER_OR_NULL = (float, None)
TEXT_OR_NULL = (str, None)

COLUMN = {"name": str, "kind": {*KINDS}, "dtype": str, "storage?": str, "n_buckets?": N_CODES}
COLUMN |= dict.fromkeys(("nullable?", "derived?", "has_scale?", "has_normal_form?"), bool)
COLUMN |= dict.fromkeys(("time_format?", "hash_of?", "number_format?"), TEXT_OR_NULL)
LEVELS = {...: [str]}
DERIVED_LEVELS = {...: LEVELS}
FEATURES = [{"name": str, "inputs": [str], "op": str, "n_codes": N_CODES}]
STATES = [{...: object}]
_RANGE = {"nulls": COUNT, "low": NUMBER_OR_NULL, "high": NUMBER_OR_NULL, "singletons": (COUNT, None)}
TRAINING = {"rows": COUNT, "columns": {...: _RANGE}}
_TABLE = {"schema": [COLUMN], "inputs": [str], "left": [str], "right": [str]}
DERIVATION = {
    "ops": [{...: object}],
    "schema": [COLUMN],
    "inputs": [str],
    "tables": {...: _TABLE},
    "made": {...: [str]},
}

_GOAL: dict[Any, Shape] = {"task": {*get_args(Task)}, "target": TEXT_OR_NULL, "labels": [(str, int, float, bool)]}
_GOAL |= {"label_type?": str, "quantiles?": [float]}
GOAL: dict[Any, Shape] = {**_GOAL, "targets?": [_GOAL]}
_INTERVALS = {"level": float, "score": float, "ends?": ([int], None)}
_IMPORTANCE = {"column": str, "importance": NUMBER_OR_NULL, "std": NUMBER_OR_NULL}
IMPORTANCES = (None, {"metric": str, "columns": [_IMPORTANCE]})
_REASONS = {"columns": {...: {"code": str, "text": str}}, "exclude": [str], "top": COUNT}
REASON_CODES = (None, _REASONS | {"adverse": str, "sign": float})
_EVENTS = {"tables": {...: {...: object}}, "entities": (None, {...: object})}
READING = {"csv": {...: object}, "events": _EVENTS, "strip?": bool, "isolate?": bool}
READING |= {key: [str] for key in ("keys?", "texts?", "id?")}
RULES = [{"column": str, "kind": {*KINDS}, "format": TEXT_OR_NULL, "rules": {...: object}}]
_KERNEL = {**dict.fromkeys(("name", "file", "out", "nulls", "sha256"), str), "inputs": [str]}


def _calibration(values: Any) -> Shape:
    """Return the shape of a calibration, which depends on its method."""
    known = values if type(values) is dict else {}
    if "classes" in known:
        return {"method": {"isotonic"}, "classes": [_calibration]}
    return {"method": {*_MAPS}, **_MAPS.get(str(known.get("method")), {})}


_MAPS: dict[str, Shape] = {"isotonic": {"x": [float], "y": [float]}, "temperature": {"slope": float}}
_MAPS["sigmoid"] = {"slope": float, "intercept": float}
_DECISION: dict[str, Shape] = {"threshold": float, "intervals?": (None, _INTERVALS)}
_DECISION["calibration"] = lambda values: None if values is None else _calibration(values)


def decision_shape(values: Any) -> Shape:
    """Return the shape of a decision, which depends on whether there are several targets."""
    return {"targets": [_DECISION]} if type(values) is dict and "targets" in values else _DECISION


MANIFEST = (
    GOAL | dict.fromkeys(("name", "created", "gpupipe"), str) | {"libraries": {...: str}, "plugins?": [{...: str}]}
)
MANIFEST |= {"model": {"name": str, "params": {...: object}, ...: object}, "estimator": ESTIMATOR}
MANIFEST |= {"decision": decision_shape, "reading": READING, "inputs": [str], "lineage": {...: [str]}, "data": RULES}
MANIFEST |= {"metrics": {...: NUMBER_OR_NULL}, "kernels": [_KERNEL], "importances?": IMPORTANCES, ...: object}
MANIFEST |= {"reason_codes?": REASON_CODES}
MANIFEST |= {"sources?": [{"name": str, "bytes?": COUNT, "sha256?": str, "version?": str}]}


def check_manifest(values: Mapping[str, Any], folder: Path) -> None:
    """Raise ArtifactError unless each entry of a model's manifest has its shape; the message names the entry."""
    manifest.check_part(values, MANIFEST, folder / manifest.NAME)
