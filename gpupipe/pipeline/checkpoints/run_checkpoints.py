"""Checkpoints of one run: loaded from an interrupted run, and saved for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpupipe.backends.base import Backend
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.config import Config, ModelEntry
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.models import FittedModel, Prediction, Resources
from gpupipe.models.estimator import Estimator
from gpupipe.models.fitted.device import HostModel
from gpupipe.models.neural.ranks.torchrun import world_size
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.pipeline.checkpoints.contents import (
    ModelCheckpoint,
    read_fitted_features,
    read_model,
    write_fitted_features,
    write_model,
)
from gpupipe.pipeline.checkpoints.keys import CheckpointKey, digest, features_digest, rows_digest
from gpupipe.pipeline.checkpoints.store import CheckpointStore
from gpupipe.pipeline.training import TrainedModel
from gpupipe.tasks import View
from gpupipe.typing import Array

RESUMED = "taken from the interrupted run"
WAITING_SECONDS = 30.0  # of work; loading skops to write models of scikit-learn costs 1.5 s once, a result 0.02 s
ON_THE_HOST = EstimatorRefusal(
    "the model was taken from the interrupted run, in its portable form", "run without --resume"
)


@dataclass(eq=False)
class RunCheckpoints:
    """Checkpoints of one run.

    Attributes
    ----------
    store : CheckpointStore
    key : CheckpointKey
        Of the run's table and target.
    waiting : list of callable
        Each saves a result that is not written yet.
    waiting_seconds : float
        The time that these results took.
    """

    store: CheckpointStore = field(default_factory=CheckpointStore)
    key: CheckpointKey = field(default_factory=CheckpointKey)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    waiting_seconds: float = 0.0

    @contextmanager
    def flush_on_error(self) -> Iterator[None]:
        """Save all waiting results if the ``with`` block ends with an error or is interrupted."""
        try:
            yield
        except BaseException as error:
            # A notebook's interrupt leaves time for that; what ends a command at once is a kind of its own.
            if isinstance(error, Exception) or type(error) is KeyboardInterrupt:
                self.flush()
            raise

    def save(self, key: CheckpointKey, seconds: float, write: Callable[[Path], None]) -> None:
        """Save a result that took that many seconds, once 30 s of work are waiting to be saved."""
        self.store.used.add(key.name)
        self.waiting.append(partial(self.store.save, key, write))
        self.waiting_seconds += seconds
        if self.waiting_seconds >= WAITING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Save all waiting results."""
        self.waiting_seconds = 0.0
        while self.waiting:
            self.waiting.pop(0)()

    def of_rows(
        self, label: str, config: Config, backend: Backend, fit_mask: Array, parts: Mapping[str, Array]
    ) -> TrainingCheckpoints:
        """Return the checkpoints of one set of training rows; `label` is the prefix of their stages' names."""
        if self.store.folder is None:
            return TrainingCheckpoints(self, label, config, backend)
        key = self.key.of(
            "", the_features=features_digest(config), the_training_rows=rows_digest(fit_mask),
            the_seed=digest(config.seed),
        )  # fmt: skip
        predicted = digest({part: rows_digest(mask) for part, mask in parts.items()})
        return TrainingCheckpoints(self, label, config, backend, key, predicted)


NO_CHECKPOINTS = RunCheckpoints()
"""The default of a job: nothing is loaded or saved."""


@dataclass(frozen=True)
class TrainingCheckpoints:
    """Checkpoints of one set of training rows: features, then models.

    Attributes
    ----------
    run : RunCheckpoints
    label : str
    config : Config
    backend : Backend
    key : CheckpointKey
        Of the features, except for the view.
    predicted : str
        Which rows are predicted.
    """

    run: RunCheckpoints
    label: str
    config: Config
    backend: Backend
    key: CheckpointKey = field(default_factory=CheckpointKey)
    predicted: str = ""

    def load_features(self, view: View, derivation: Derivation | None) -> tuple[FittedFeatures | None, str]:
        """Return the saved features of a view, or None and the reason."""
        read = partial(read_fitted_features, derivation=derivation, backend=self.backend)
        return self.run.store.load(self._features_key(view), read)

    def save_features(self, view: View, features: FittedFeatures, seconds: float) -> None:
        """Save features, fitted in that many seconds, that consist of numbers in this process.

        Features with a user's kernel are not saved, since that is code, nor those whose folds are on workers.
        """
        if not features.program.calls and (features.folds is None or hasattr(features.folds, "dtype")):
            key = self._features_key(view)
            write = partial(write_fitted_features, key=key, features=features, backend=self.backend)
            self.run.save(key, seconds, write)

    def load_model(self, entry: ModelEntry) -> tuple[ModelCheckpoint | None, str]:
        """Return the saved model of an entry, or None and the reason. A network resumes from its own checkpoint."""
        if isinstance(entry.params, NeuralSettings):
            return None, ""
        on_device = self.backend.name == "gpu"
        if on_device and self.config.device_options.fallback == "forbid":
            return (
                None,
                "a model that was kept is the host's, and this run may not leave the GPU" * self.run.store.resume,
            )
        found, why = self.run.store.load(self._model_key(entry), read_model)
        if found is not None and on_device:
            found = replace(found, model=_on_host(found.model, self.backend))
        return found, why

    def save_model(self, trained: TrainedModel, predictions: Mapping[str, Prediction]) -> None:
        """Save a trained model; a network has saved its own checkpoints, after each epoch."""
        if isinstance(trained.entry.params, NeuralSettings):
            return
        key = self._model_key(trained.entry)
        write = partial(write_model, key=key, trained=trained, predictions=predictions, backend=self.backend)
        self.run.save(key, trained.seconds, write)

    def resources(self, entry: ModelEntry, resources: Resources) -> Resources:
        """Return the resources for the training of an entry; those of a network name its checkpoint file."""
        if not isinstance(entry.params, NeuralSettings):
            return resources
        key = self._model_key(entry).of("", the_processes=digest(max(resources.n_processes, world_size())))
        store = self.run.store
        return replace(resources, checkpoint=store.state_file(key), resume=store.resume)

    def _features_key(self, view: View) -> CheckpointKey:
        return self.key.of(f"{self.label}features of the {view} view", the_view=view)

    def _model_key(self, entry: ModelEntry) -> CheckpointKey:
        model = [entry.name, entry.params.model_dump(mode="json")]
        if isinstance(entry.params, Estimator):
            model.append(entry.params.sha256)  # of the user's file that makes it
        return self.key.of(
            f"{self.label}train {entry.label}", the_model=digest(model), the_predicted_rows=self.predicted
        )


def _on_host(model: FittedModel, backend: Backend) -> FittedModel:
    """Return a model that was read from its files as one of a run whose matrices are on a device."""
    return HostModel(
        model, model.task, model.feature_names, model.n_classes, model.classes, model.notes, backend, ON_THE_HOST
    )
