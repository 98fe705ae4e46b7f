"""Machine learning bill of materials of a model, in CycloneDX 1.6: https://cyclonedx.org/docs/1.6/json."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from gpupipe.artifact import ArtifactReader
from gpupipe.pipeline.provenance.statement import package_url, versions_of
from gpupipe.pipeline.result import load_run
from gpupipe.tasks import SUPERVISED

MODEL = "model"  # reference of the model within the document


def bill_of_materials(reader: ArtifactReader, run: Path | None) -> dict[str, Any]:
    """Return the document about a model as JSON values: the model with its card, its libraries and its sources.

    `run` is the run directory of the model, which has intervals of the metrics, and metrics of slices.
    """
    manifest, sources = reader.manifest, reader.manifest.get("sources", ())
    libraries = [
        {"type": "library", "bom-ref": name, "name": name, "version": version, "purl": package_url(name, version)}
        for name, version in versions_of(reader).items()
    ]
    data = [_data(f"source-{i}", source) for i, source in enumerate(sources, 1)]
    sha256 = hashlib.sha256(reader.manifest_bytes).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": UUID(sha256[:32], version=5).urn,
        "version": 1,
        "metadata": {
            "timestamp": manifest["created"],
            "tools": {"components": [{"type": "application", "name": "gpupipe", "version": manifest["gpupipe"]}]},
            "component": {
                "type": "machine-learning-model",
                "bom-ref": MODEL,
                "name": manifest["name"],
                "version": manifest["manifest_sha256"][:12],
                "hashes": [{"alg": "SHA-256", "content": sha256}],
                "modelCard": _model_card(reader, run, [each["bom-ref"] for each in data]),
            },
        },
        "components": [*libraries, *data],
        "dependencies": [{"ref": MODEL, "dependsOn": [each["bom-ref"] for each in (*libraries, *data)]}],
    }


def _data(ref: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the component of a source."""
    hashes = [{"alg": "SHA-256", "content": source["sha256"]}] if "sha256" in source else []
    is_code = source["name"].endswith(".py")
    found = {"type": "file" if is_code else "data", "bom-ref": ref, "name": source["name"], "hashes": hashes}
    found |= {} if is_code else {"data": [{"type": "dataset", "name": source["name"]}]}
    return found | ({"version": source["version"]} if source.get("version") else {})


def _model_card(reader: ArtifactReader, run: Path | None, datasets: list[str]) -> dict[str, Any]:
    manifest = reader.manifest
    is_supervised = manifest["task"] in SUPERVISED
    params = manifest["model"]["params"]
    return {
        "modelParameters": {
            "approach": {"type": "supervised" if is_supervised else "unsupervised"},
            "task": manifest["task"],
            "architectureFamily": manifest["estimator"]["library"],
            "modelArchitecture": manifest["model"]["name"],
            "datasets": [{"ref": ref} for ref in datasets],
            "inputs": [{"format": f"column {name!r}"} for name in manifest["inputs"]],
        },
        "quantitativeAnalysis": {"performanceMetrics": list(_metrics(manifest, run))},
        "properties": [{"name": f"gpupipe:params:{name}", "value": str(value)} for name, value in params.items()],
    }


def _metrics(manifest: Mapping[str, Any], run: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the metrics of all rows, then those of the slices."""
    slices = {} if run is None else load_run(run).document.get("slices") or {}
    overall = slices.get("overall", {}).get("intervals", {})
    yield from _measured(manifest["metrics"], overall, {})
    for column, levels in slices.get("columns", {}).items():
        for level in levels:
            yield from _measured(level["metrics"], level["intervals"], {"slice": f"{column} = {level['level']}"})


def _measured(values: Mapping[str, Any], ends: Mapping[str, Any], where: dict[str, str]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        if value is not None:
            low, high = ends.get(name) or (None, None)
            has_ends = low is not None and high is not None
            interval = {"confidenceInterval": {"lowerBound": str(low), "upperBound": str(high)}} if has_ends else {}
            yield {"type": name, "value": str(value), **where, **interval}
