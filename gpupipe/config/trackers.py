"""The ``track:`` section: experiment trackers that a run is logged to."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import Field, field_validator

from gpupipe.settings import OneOrMore, Seconds, Settings

Uploaded = Literal["report", "model", "predictions"]
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|databricks$|\$\{")


class TrackSettings(Settings):
    """Trackers that the run is logged to. A tracker that is absent or fails costs a warning, never the run."""

    mlflow: str | None = Field(
        default=None,
        min_length=1,
        description="Tracking server or store of MLflow: a URI such as `http://localhost:5000` or "
        "`sqlite:///mlflow.db`. Requires `pip install 'gpupipe[mlflow]'`. Null: not logged to MLflow.",
    )
    experiment: str | None = Field(
        default=None,
        min_length=1,
        description="Experiment of MLflow; created if it does not exist. Null: the variable MLFLOW_EXPERIMENT_NAME, or "
        "the `name` of the configuration.",
    )
    wandb: str | None = Field(
        default=None,
        min_length=1,
        description="Project of Weights & Biases. Requires `pip install 'gpupipe[wandb]'`. Null: not logged there.",
    )
    mode: Literal["offline", "online"] = Field(
        default="offline",
        description="Mode of Weights & Biases. `offline`: into the folder `wandb` next to the run directory, to be "
        "uploaded with `wandb sync`. `online`: also to its server, with the credentials of this machine.",
    )
    tags: dict[str, str] = Field(default_factory=dict, description="Further tags of the tracked run.")
    artifacts: Annotated[tuple[Uploaded, ...], OneOrMore()] = Field(
        default=("report", "model"),
        description="Files to upload in addition to config.yaml, metrics.json and timeline.json. `report`: the report "
        "and its plots. `model`: the exported model. `predictions`: predictions.parquet, which has one row for each "
        "test row.",
    )
    timeout: Seconds = Field(
        default=30.0,
        description="Longest wait for an answer of a tracker at the end of the run, such as `30s`; uploads get one "
        "more second per MiB.",
    )

    @field_validator("mlflow")
    @classmethod
    def _is_a_uri(cls, uri: str | None) -> str | None:
        if uri is not None and not _URI.match(uri):
            raise ValueError("expected a URI, such as http://localhost:5000 or sqlite:///mlflow.db")
        return uri

    @property
    def libraries(self) -> dict[str, str]:
        """Module to the display name of each configured tracker."""
        found = {"mlflow": ("MLflow", self.mlflow), "wandb": ("Weights & Biases", self.wandb)}
        return {module: name for module, (name, setting) in found.items() if setting is not None}

    def absences(self) -> dict[str, str]:
        """Return the warning for each configured tracker whose library is not installed, by module."""
        specs = {module: find_spec(module) for module in self.libraries}
        # Without an origin, it is a folder of that name, such as the folder `wandb` of offline runs.
        absent = [module for module, spec in specs.items() if spec is None or spec.origin is None]
        return {
            module: f"{self.libraries[module]} is not installed, so it does not track this run; "
            f"pip install 'gpupipe[{module}]'"
            for module in absent
        }
