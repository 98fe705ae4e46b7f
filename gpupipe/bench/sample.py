"""One measured run: the JSON document of a peer script or of gpupipe's child process.

``stages_s`` and ``stages_cpu_s`` map stages to seconds: read, split, features_fit, features_transform_train,
features_transform_test (or features_fit_transform_train, if one call does both), train, evaluate and save, as well as
imports and serve_transform_all, which are not in the totals. Further keys: ``features_total_s``, ``total_s``,
``peak_rss_mib`` and, with a model, ``auc`` or another metric under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import ConfigError

OUTSIDE_THE_TOTAL = ("imports", "serve_transform_all")
PEER_METRICS = {"roc_auc": "auc"}  # gpupipe's metrics with another name in the peer protocol
NUMBERS = ("features_total_s", "total_s", "peak_rss_mib")


@dataclass(frozen=True)
class BenchSample:
    """One run.

    - `document`: the JSON of the process.
    - `process_s`, `process_cpu_s`: wall and CPU seconds of the whole process, imports included; None if it had several
      runs.
    """

    document: Mapping[str, Any]
    process_s: float | None = None
    process_cpu_s: float | None = None

    def metric(self, name: str) -> float | None:
        """Return a metric of the model; None if it was not measured."""
        value = self.document.get(name, self.document.get(PEER_METRICS.get(name, name)))
        return None if value is None else float(value)

    def to_json(self) -> dict[str, Any]:
        """Return the document with the seconds of the process."""
        return {**self.document, "process_s": self.process_s, "process_cpu_s": self.process_cpu_s}


def stage_document(wall: Mapping[str, float], cpu: Mapping[str, float]) -> dict[str, Any]:
    """Return the stages and their totals in the form of a sample."""
    return {
        "stages_s": dict(wall),
        "stages_cpu_s": dict(cpu),
        "features_total_s": sum(seconds for name, seconds in wall.items() if name.startswith("features")),
        "total_s": sum(seconds for name, seconds in wall.items() if name not in OUTSIDE_THE_TOTAL),
    }


def require_complete(document: Any, origin: str) -> None:
    """Verify that a document has every value of the result table.

    Raise ConfigError if a value is missing or not a number.
    """
    if not isinstance(document, Mapping):
        raise ConfigError("the JSON of the peer is not an object", where=origin, fix=PROTOCOL)
    bad = [name for name in NUMBERS if not _is_number(document.get(name))]
    for name in ("stages_s", "stages_cpu_s"):
        stages = document.get(name)
        if not isinstance(stages, Mapping) or not stages or not all(map(_is_number, stages.values())):
            bad.append(name)
    if bad:
        raise ConfigError(
            f"missing or not numbers in the JSON of the peer: {', '.join(bad)}", where=origin, fix=PROTOCOL
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


PROTOCOL = (
    "a peer takes --data FILE --model lr|hgb|rf|xgb|none --json OUT and writes stages_s and stages_cpu_s (stage to "
    "seconds), features_total_s, total_s, peak_rss_mib and auc"
)
