"""MLflow, through its client object: the fluent API changes the state of the process and logs by itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from gpupipe.files.author import account_name
from gpupipe.trackers.tracker import ExperimentTracker, MetricPoint, RunStatus, TrackedDataset

# Limits of MLflow 3.17 (mlflow.utils.validation): characters, and entries of one request.
MOST_IN_KEY = 250
MOST_IN_PARAM = 6_000
MOST_IN_TAG = 5_000
MOST_IN_NAME = 500
MOST_IN_SOURCE = 60_000
# Together at most 1,000 entries and 1 MB.
PARAMS_PER_REQUEST, METRICS_PER_REQUEST = 50, 800
MOST_COLUMNS = 2_000  # of the schema of a dataset, which is limited to 1 MiB
BAD_IN_KEY = re.compile(r"[^\w.\-:/ ]", re.ASCII)
TEMPORARY = {"INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED",
             "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}  # fmt: skip
ATTEMPT = "gpupipe/start"
TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # else the UI guesses, and opens views for agents
TYPES = {"numeric": "double", "boolean": "boolean", "datetime": "datetime"}  # other kinds: string


class MlflowTracker(ExperimentTracker):
    """Runs of an MLflow experiment; nested runs have the tag ``mlflow.parentRunId``. See `ExperimentTracker`."""

    def __init__(self, settings: Mapping[str, Any], ids: dict[str, str]) -> None:
        super().__init__(settings, ids)
        self._uri = without_credentials(settings["uri"])
        self._client = MlflowClient(tracking_uri=self._uri)
        self._experiment_id = ""
        self._continued: set[str] = set()
        self._attempts: dict[str, str] = {}  # key of a run to the tag of its first attempt to start

    def start(self, run: str, name: str, parent: str | None, tags: Mapping[str, str], time_ms: int) -> dict[str, str]:
        """Start a run, or continue that of an interrupted run if the server still has it."""
        if not self._experiment_id:
            self._experiment_id = self._find_experiment()
        if run in self.ids and self._continue(self.ids[run]):
            self._continued.add(run)
            return self._described(self.ids[run])
        if (attempt := self._attempts.get(run)) and (found := self._find_started(attempt)):
            self.ids[run] = found
            return self._described(found)
        self._attempts[run] = attempt or uuid4().hex
        own = {
            **tags,
            ATTEMPT: self._attempts[run],
            "mlflow.user": account_name(),
            "mlflow.source.name": "gpupipe",
            "mlflow.source.type": "LOCAL",
        }
        if parent is not None:
            own["mlflow.parentRunId"] = self.ids[parent]
        cut = {_key(key): value[:MOST_IN_TAG] for key, value in own.items()}
        created = self._client.create_run(self._experiment_id, time_ms, cut, name[:MOST_IN_KEY])
        self.ids[run] = created.info.run_id
        return self._described(created.info.run_id)

    def log(self, run: str, params: Mapping[str, str], metrics: Sequence[MetricPoint], tags: Mapping[str, str]) -> None:
        """Log values in as few requests as MLflow allows.

        MLflow refuses to change a parameter, so a continued run keeps those that it has.
        """
        named = {_key(name): value[:MOST_IN_PARAM] for name, value in params.items()}
        if named and run in self._continued:
            for name in self._client.get_run(self.ids[run]).data.params:
                named.pop(name, None)
        all_params = [Param(name, value) for name, value in named.items()]
        all_tags = [RunTag(_key(name), value[:MOST_IN_TAG]) for name, value in tags.items()]
        points = [Metric(_key(point.name), point.value, point.time_ms, point.step) for point in metrics]
        while all_params or all_tags or points:
            n_params = PARAMS_PER_REQUEST
            n_tags = PARAMS_PER_REQUEST
            n_points = METRICS_PER_REQUEST
            self._client.log_batch(self.ids[run], points[:n_points], all_params[:n_params], all_tags[:n_tags])
            all_params = all_params[n_params:]
            all_tags = all_tags[n_tags:]
            points = points[n_points:]

    def dataset(self, run: str, found: TrackedDataset) -> None:
        """Log the dataset as an input of the run."""
        columns = [{"name": name, "type": TYPES.get(kind, "string")} for name, kind in found.columns[:MOST_COLUMNS]]
        dataset = Dataset(
            name=found.name[:MOST_IN_NAME],
            digest=found.digest,
            source_type="local",
            source=json.dumps({"uri": found.source[:MOST_IN_SOURCE]}),
            schema=json.dumps({"mlflow_colspec": columns}),
            profile=json.dumps({"num_rows": found.n_rows, "num_columns": len(found.columns)}),
        )
        self._client.log_inputs(self.ids[run], [DatasetInput(dataset, [])])

    def text(self, run: str, path: str, content: str) -> None:
        """Upload a text file."""
        self._client.log_text(self.ids[run], content, path)

    def files(self, run: str, kind: str, folder: str, paths: Sequence[str]) -> None:
        """Upload files one by one."""
        for path in paths:
            parent = str(PurePosixPath(path).parent)
            self._client.log_artifact(self.ids[run], str(Path(folder, path)), None if parent == "." else parent)

    def end(self, run: str, status: RunStatus, time_ms: int) -> None:
        """End a run."""
        self._client.set_terminated(self.ids[run], status, time_ms)

    def is_temporary(self, error: Exception) -> bool:
        """Return whether the server could not be reached, or was busy."""
        return error.error_code in TEMPORARY if isinstance(error, MlflowException) else isinstance(error, OSError)

    def _find_experiment(self) -> str:
        name = self.settings["experiment"] or os.environ.get("MLFLOW_EXPERIMENT_NAME") or self.settings["name"]
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(self._client.create_experiment(name, tags=TRAINING))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # created by another run in the meantime
                raise
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def _find_started(self, attempt: str) -> str | None:
        """Return the run that an earlier attempt has started, although its answer came too late."""
        found = self._client.search_runs([self._experiment_id], f"tags.`{ATTEMPT}` = '{attempt}'", max_results=1)
        return str(found[0].info.run_id) if found else None

    def _continue(self, run_id: str) -> bool:
        try:
            self._client.update_run(run_id, "RUNNING")
        except MlflowException as error:
            if error.error_code in TEMPORARY:
                raise
            return False  # deleted
        return True

    def _described(self, run_id: str) -> dict[str, str]:
        found = {"id": run_id, "experiment_id": self._experiment_id}
        if self._uri.startswith(("http://", "https://")):
            found["url"] = f"{self._uri.rstrip('/')}/#/experiments/{self._experiment_id}/runs/{run_id}"
        return found


def without_credentials(uri: str) -> str:
    """Return an HTTP URI without user and password, which become MLflow's variables; other URIs are unchanged.

    MLflow quotes the URI in its messages, and URLs of runs contain it.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return uri
    os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username or "")
    os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password or "")
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _key(name: str) -> str:
    """Return a name of a parameter, metric or tag that MLflow accepts: it must also be a plain relative path."""
    parts = [part if part.strip(".") else "_" for part in BAD_IN_KEY.sub("_", name).split("/")]
    return "/".join(parts)[:MOST_IN_KEY].rstrip("/")
