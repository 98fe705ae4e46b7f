"""One measured run: the JSON that a peer script writes, and gpupipe's own child processes too.

``stages_s`` and ``stages_cpu_s`` map stage to seconds: read, split, features_fit, features_transform_train,
features_transform_test (or features_fit_transform_train, where one call does both), train, evaluate, save; and outside
the totals imports and serve_transform_all. ``features_total_s``, ``total_s``, ``peak_rss_mib`` and, with a model,
``auc`` (or a metric under its own name) stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import ConfigError

OUTSIDE_THE_TOTAL = ("imports", "serve_transform_all")
PEER_METRICS = {"roc_auc": "auc"}  # our metric to what a peer's JSON calls it, where that differs
NUMBERS = ("features_total_s", "total_s", "peak_rss_mib")


@dataclass(frozen=True)
class BenchSample:
    """One run.

    Attributes
    ----------
    document : mapping
        The JSON of the process.
    process_s, process_cpu_s : float, optional
        Wall and processor seconds of the whole process, imports included; None if it held several runs.
    """

    document: Mapping[str, Any]
    process_s: float | None = None
    process_cpu_s: float | None = None

    def metric(self, name: str) -> float | None:
        """Return a metric of the model; None if it was not measured."""
        value = self.document.get(name, self.document.get(PEER_METRICS.get(name, name)))
        return None if value is None else float(value)

    def to_json(self) -> dict[str, Any]:
        """Return the report with the process's own seconds."""
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
    """Raise an error unless a report has every figure of the table.

    Raises
    ------
    ConfigError
        With the names of the figures that are absent or not numbers.
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
            f"the JSON of the peer lacks {', '.join(bad)}, or they are not numbers", where=origin, fix=PROTOCOL
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


PROTOCOL = (
    "a peer takes --data FILE --model lr|hgb|rf|xgb|none --json OUT and writes stages_s and stages_cpu_s (stage to "
    "seconds), features_total_s, total_s, peak_rss_mib and auc"
)
