"""Runs logged by Weights & Biases offline, read from its files: a LevelDB log of protobuf records."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline

BLOCK, HEADER = 32_768, 7


def log_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file in LevelDB's log format, whose first block begins with a header of 7 bytes."""
    data, at, parts = path.read_bytes(), HEADER, b""
    assert data.startswith(b":W&B")
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # padding
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # the whole record, or its last part
            yield parts
            parts = b""


def test_an_offline_run_has_configuration_metrics_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staging"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = parse_config({
            "name": "small",
            "source": {"generate": "churn", "rows": 600, "target": "Churn", "drop": ["customerID", "City"]},
            "models": ["gaussian_nb"],
            "evaluate": {"metrics": ["roc_auc"], "importance": False},
            "report": {"enabled": False},
            "track": {"wandb": "demo", "timeout": 60},
        })  # fmt: skip
        run = run_pipeline(config, tmp_path / "runs" / "small")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):  # nothing has connected
            listening.accept()
    (tracked,) = run.tracked
    assert (tracked["tracker"], tracked["complete"]) == ("wandb", True)
    (log,) = Path(tracked["folder"]).glob("*.wandb")
    found: dict[str, Any] = {}
    artifacts, uploaded = [], set()
    for record in map(Record.FromString, log_records(log)):
        for item in (*record.run.config.update, *record.config.update):
            found[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        for item in (*record.summary.update, *record.history.item):
            found[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        request = record.request.log_artifact.artifact
        for artifact in (record.artifact, request):
            if artifact.type:
                artifacts.append(artifact.type)
                uploaded |= {entry.path for entry in artifact.manifest.contents}
    assert found["split.test_size"] == "0.2"
    assert found["roc_auc"] == pytest.approx(run.metrics["roc_auc"])
    assert found["dataset"]["n_rows"] == 600
    assert found["status"] == "FINISHED"
    assert {"model", "records"} <= set(artifacts)
    assert {path.relative_to(run.path).as_posix() for path in run.path.glob("model/*")} <= uploaded
