"""Checkpoints of one run: loaded from an interrupted run, and saved for the next one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
from gpupipe.models.best import Best
from gpupipe.models.device.fitted import HostModel
from gpupipe.models.neural.ranks.torchrun import world_size
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.scikit_learn.settings.estimator import Estimator
from gpupipe.tasks import View
from gpupipe.training.checkpoints.contents import (
    ModelCheckpoint,
    read_fitted_features,
    read_model,
    write_fitted_features,
    write_model,
)
from gpupipe.training.checkpoints.keys import CheckpointKey, digest, features_digest, rows_digest
from gpupipe.training.checkpoints.store import CheckpointStore
from gpupipe.training.fit import TrainedModel
from gpupipe.typing import Array

RESUMED = "loaded from a checkpoint"
WAITING_SECONDS = 10.0  # of work; a checkpoint takes about 0.02 s
ON_THE_HOST = EstimatorRefusal("the model was loaded from a checkpoint, in its portable form", "run without --resume")


@dataclass(eq=False)
class RunCheckpoints:
    """Checkpoints of one run.

    `key` is that of the run's table and target. `waiting` has functions that each save an unsaved result, and
    `waiting_seconds` is the time spent to compute these results.
    """

    store: CheckpointStore = field(default_factory=CheckpointStore)
    key: CheckpointKey = field(default_factory=CheckpointKey)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    waiting_seconds: float = 0.0

    @contextmanager
    def flush_on_error(self) -> Iterator[None]:
        """Save all unsaved results if the ``with`` block raises or is interrupted."""
        try:
            yield
        except BaseException as error:
            # A notebook's interrupt leaves time to save. An immediate exit of a command raises a subclass.
            if isinstance(error, Exception) or type(error) is KeyboardInterrupt:
                self.flush()
            raise

    def save(self, key: CheckpointKey, seconds: float, write: Callable[[Path], None]) -> None:
        """Queue a result that took `seconds`; save all queued results once they represent 10 s of work."""
        self.store.used.add(key.name)
        self.waiting.append(partial(self.store.save, key, write))
        self.waiting_seconds += seconds
        if self.waiting_seconds >= WAITING_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Save all unsaved results."""
        self.waiting_seconds = 0.0
        while self.waiting:
            self.waiting.pop(0)()

    def of_rows(
        self, label: str, config: Config, backend: Backend, fit_mask: Array, parts: Mapping[str, Array]
    ) -> TrainingCheckpoints:
        """Return the checkpoints for one set of training rows; `label` prefixes the names of their stages."""
        if self.store.folder is None:
            return TrainingCheckpoints(self, label, config, backend)
        key = self.key.of(
            "",
            the_features=features_digest(config),
            the_training_rows=rows_digest(fit_mask),
            the_seed=digest(config.seed),
        )
        predicted = digest({part: rows_digest(mask) for part, mask in parts.items()})
        return TrainingCheckpoints(self, label, config, backend, key, predicted)


NO_CHECKPOINTS = RunCheckpoints()
"""The default of a job: nothing is loaded or saved."""


@dataclass(frozen=True)
class TrainingCheckpoints:
    """Checkpoints for one set of training rows: features, then models.

    `label` is the prefix of the stage names, `key` that of the features, without the view, and `predicted` the hash of
    the rows to predict.
    """

    run: RunCheckpoints
    label: str
    config: Config
    backend: Backend
    key: CheckpointKey = field(default_factory=CheckpointKey)
    predicted: str = ""

    @property
    def may_load(self) -> bool:
        """True if models are loaded: not on a device that must not fall back to the CPU."""
        return self.backend.name != "gpu" or self.config.device_options.fallback != "forbid"

    def load_features(self, view: View, derivation: Derivation | None) -> tuple[FittedFeatures | None, str]:
        """Return the saved features of a view, or None and the reason."""
        read = partial(read_fitted_features, derivation=derivation, backend=self.backend)
        return self.run.store.load(self._features_key(view), read)

    def save_features(self, view: View, features: FittedFeatures, seconds: float) -> None:
        """Save features that took `seconds` to fit.

        Features with custom kernels are not saved, because kernels are code, nor are features whose folds are on
        workers.
        """
        if not features.program.calls and (features.folds is None or hasattr(features.folds, "dtype")):
            key = self._features_key(view)
            write = partial(write_fitted_features, key=key, features=features, backend=self.backend)
            self.run.save(key, seconds, write)

    def load_model(self, entry: ModelEntry) -> tuple[ModelCheckpoint | None, str]:
        """Return the saved model of an entry, or None and the reason. Networks resume from their own checkpoints."""
        if _saves_itself(entry):
            return None, ""
        on_device = self.backend.name == "gpu"
        if not self.may_load:
            reason = "a checkpoint has the model's CPU form, and this run forbids falling back to the CPU"
            return None, reason if self.run.store.resume else ""
        found, why = self.run.store.load(self._model_key(entry), read_model)
        if found is not None and on_device:
            found = replace(found, model=on_host(found.model, self.backend))
        return found, why

    def save_model(self, entry: ModelEntry, trained: TrainedModel, predictions: Mapping[str, Prediction]) -> None:
        """Save the trained model of an entry; networks save their own checkpoint after each epoch.

        The entry is that of the configuration; that of `trained` may have tuned parameters.
        """
        if _saves_itself(entry):
            return
        key = self._model_key(entry)
        write = partial(write_model, key=key, trained=trained, predictions=predictions, backend=self.backend)
        self.run.save(key, trained.seconds, write)

    def resources(self, entry: ModelEntry, resources: Resources) -> Resources:
        """Return the resources to train an entry with: networks and searches get the path of their checkpoint."""
        if entry.tune is not None:
            # Without the limits of the search: a longer one continues the same trials.
            file = self.run.store.state_file(self._model_key(entry, {"trials", "time_limit"}), "db")
            return replace(resources, checkpoint=file, resume=self.run.store.resume)
        if not isinstance(entry.params, NeuralSettings):
            return resources
        key = self._model_key(entry).of("", the_processes=digest(max(resources.n_processes, world_size())))
        store = self.run.store
        return replace(resources, checkpoint=store.state_file(key), resume=store.resume)

    def _features_key(self, view: View) -> CheckpointKey:
        return self.key.of(f"{self.label}features of the {view} view", the_view=view)

    def _model_key(self, entry: ModelEntry, without: Collection[str] = ()) -> CheckpointKey:
        """Return the key of a model; `without` names settings of ``tune`` that it does not depend on."""
        split, is_ensemble = self.config.split, isinstance(entry.params, Best)
        # Early stopping holds out rows by group or time, also of a model that is trained on all rows.
        model = [entry.name, entry.params.model_dump(mode="json"), split.group, split.time]
        if entry.tune is not None or is_ensemble:
            # The metric chooses trials and members; the latency limit chooses members.
            unused = {"importance"} if is_ensemble else {"importance", "max_latency"}
            evaluation = self.config.evaluate.model_dump(mode="json", exclude=unused)
            tune = None if entry.tune is None else entry.tune.model_dump(mode="json", exclude=set(without))
            model += [tune, evaluation, split.model_dump(mode="json")]
        if isinstance(entry.params, Estimator):
            model.append(entry.params.sha256)  # hash of the user's file
        return self.key.of(
            f"{self.label}train {entry.label}", the_model=digest(model), the_predicted_rows=self.predicted
        )


def _saves_itself(entry: ModelEntry) -> bool:
    """Return whether a training saves a checkpoint after each epoch; of a tuned network, the trials are saved."""
    return isinstance(entry.params, NeuralSettings) and entry.tune is None


def on_host(model: FittedModel, backend: Backend) -> FittedModel:
    """Return a model read from its files, wrapped to predict from matrices on a device."""
    return HostModel(
        model, model.task, model.feature_names, model.n_classes, model.classes, model.notes, backend, ON_THE_HOST
    )
