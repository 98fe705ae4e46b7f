"""Provenance of a model: an in-toto statement with the predicate SLSA Provenance, both of version 1."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import CARD
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.config.scalars import Loader
from gpupipe.inference.parity.replay import NAME as PARITY
from gpupipe.pipeline.result import read_json
from gpupipe.pipeline.update.training_settings import NAME as TRAINING

PROJECT = "https://github.com/gpupipe/gpupipe"


def provenance_statement(reader: ArtifactReader, run: Path | None) -> dict[str, Any]:
    """Return the statement about a model as JSON values: its files, and what they were made from.

    `run` is the run directory of the model, which has the resolved configuration; without it, the settings in the model
    are used. Neither has secrets.
    """
    manifest = reader.manifest
    digests = {name: part["sha256"] for name, part in manifest["files"].items()}
    digests |= {MANIFEST: hashlib.sha256(reader.manifest_bytes).hexdigest()}
    if (card := reader.path(CARD)).is_file():
        digests[CARD] = hashlib.sha256(card.read_bytes()).hexdigest()
    config = reader.json(TRAINING) if TRAINING in reader.names() else {}
    builder = {"id": PROJECT, "version": {"gpupipe": manifest["gpupipe"]}}
    details: dict[str, Any] = {"finishedOn": manifest["created"]}
    if run is not None:
        config = yaml.load((run / "config.yaml").read_text(encoding="utf-8"), Loader=Loader)
        details |= {"invocationId": run.resolve().name, "startedOn": read_json(run / "timeline.json")["started"]}
    environment = {key: value for key, value in trained_on(reader).items() if key != "libraries"}
    libraries = ({"uri": package_url(*library)} for library in versions_of(reader).items())
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{PROJECT}/run/v1",
                "externalParameters": {"config": config},
                "internalParameters": {"seed": config.get("seed"), **environment},
                "resolvedDependencies": [*map(_dependency, manifest.get("sources", ())), *libraries],
            },
            "runDetails": {"builder": builder, "metadata": details},
        },
    }


def trained_on(reader: ArtifactReader) -> dict[str, Any]:
    """Return device, threads, Python, system and libraries of the training; empty if the model has no recorded rows."""
    found: dict[str, Any] = reader.json(PARITY)["trained_on"] if PARITY in reader.names() else {}
    return found


def versions_of(reader: ArtifactReader) -> dict[str, str]:
    """Return the versions of gpupipe and of the libraries of the training, by name."""
    return {"gpupipe": reader.manifest["gpupipe"], **reader.manifest["libraries"]}


def package_url(name: str, version: str) -> str:
    """Return the package URL of a library."""
    return f"pkg:pypi/{name}@{quote(version)}"


def _dependency(source: dict[str, Any]) -> dict[str, Any]:
    """Return the resource descriptor of a source."""
    noted = {key: source[key] for key in ("bytes", "version") if source.get(key)}
    identity = {"digest": {"sha256": source["sha256"]}} if "sha256" in source else {"uri": source["name"]}
    return {"name": source["name"], **identity, "annotations": noted}
