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
from gpupipe.models.fitted.scikit_learn import FittedSklearn
from gpupipe.models.neural.ranks.torchrun import world_size
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.pipeline.checkpoints.contents import (
    ModelCheckpoint,
    read_fitted_features,
    read_model,
    write_fitted_features,
    write_model,
)
from gpupipe.pipeline.checkpoints.keys import CheckpointKey, code_of, digest, features_digest, rows_digest
from gpupipe.pipeline.checkpoints.store import CheckpointStore
from gpupipe.pipeline.training import TrainedModel
from gpupipe.tasks import View
from gpupipe.typing import Array

RESUMED = "taken from the interrupted run"
# What is kept may cost so much of the time that made it; until then it waits. Measured, in seconds of processor time: a
# result, and loading the library that writes scikit-learn's models.
SHARE = 0.02
RESULT_SECONDS, LIBRARY_SECONDS = 0.02, 2.0
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
    share : float
        The largest part of the work of a result that saving it may cost.
    waiting : dict of bool to list of (float, callable)
        The seconds that a result took, and the function that saves it; under True those that need the library.
    """

    store: CheckpointStore = field(default_factory=CheckpointStore)
    key: CheckpointKey = field(default_factory=CheckpointKey)
    share: float = SHARE
    waiting: dict[bool, list[tuple[float, Callable[[], None]]]] = field(default_factory=lambda: {False: [], True: []})

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

    def save(self, key: CheckpointKey, seconds: float, write: Callable[[Path], None], by_library: bool = False) -> None:
        """Save a result that took that many seconds, once saving costs little compared with the work it protects."""
        self.store.used.add(key.name)
        waiting = self.waiting[by_library]
        waiting.append((seconds, partial(self.store.save, key, write)))
        costs = RESULT_SECONDS * len(waiting) + LIBRARY_SECONDS * by_library
        if costs <= self.share * sum(seconds for seconds, _ in waiting):
            _flush(waiting)

    def flush(self) -> None:
        """Save all waiting results."""
        for waiting in self.waiting.values():
            _flush(waiting)

    def of_rows(
        self, label: str, config: Config, backend: Backend, fit_mask: Array, parts: Mapping[str, Array]
    ) -> TrainingCheckpoints:
        """Return the checkpoints of one set of training rows; `label` is the prefix of their stages' names."""
        if self.store.folder is None:
            return TrainingCheckpoints(self, label, config, backend)
        key = self.key.of(
            "", the_features=features_digest(config), the_training_rows=rows_digest(fit_mask),
            the_seed=digest(config.seed), the_code_of_features=code_of("features"),
        )  # fmt: skip
        predicted = digest({part: rows_digest(mask) for part, mask in parts.items()})
        return TrainingCheckpoints(self, label, config, backend, key, predicted)


def _flush(waiting: list[tuple[float, Callable[[], None]]]) -> None:
    while waiting:
        waiting.pop(0)[1]()


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

    def save_features(self, view: View, features: FittedFeatures) -> None:
        """Save features that consist of numbers in this process.

        Features with a user's kernel are not saved, since that is code, nor those whose folds are on workers.
        """
        if not features.program.calls and (features.folds is None or hasattr(features.folds, "dtype")):
            key = self._features_key(view)
            write = partial(write_fitted_features, key=key, features=features, backend=self.backend)
            self.run.save(key, 0.0, write)

    def load_model(self, entry: ModelEntry) -> tuple[ModelCheckpoint | None, str]:
        """Return the saved model of an entry, or None and the reason. A network resumes from its own checkpoint."""
        if isinstance(entry.params, NeuralSettings):
            return None, ""
        on_device = self.backend.name == "gpu"
        if on_device and self.config.device_options.fallback == "forbid":
            return None, "a model that was kept is the host's, and this run may not leave the GPU" * self._resumes
        found, why = self.run.store.load(self._model_key(entry), read_model)
        if found is not None and on_device:
            found = replace(found, model=_on_host(found.model, self.backend))
        return found, why

    def save_model(self, trained: TrainedModel, predictions: Mapping[str, Prediction]) -> None:
        """Save a trained model; a network has saved its own checkpoints, after each epoch."""
        if isinstance(trained.entry.params, NeuralSettings):
            return
        key, model = self._model_key(trained.entry), trained.model
        by_library = self.backend.name == "gpu" or model.library == FittedSklearn.library
        write = partial(write_model, key=key, trained=trained, predictions=predictions, backend=self.backend)
        self.run.save(key, trained.seconds, write, by_library)

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
        model = [entry.name, entry.params.model_dump(mode="json"), *_file_digest(entry)]
        return self.key.of(
            f"{self.label}train {entry.label}", the_model=digest(model), the_predicted_rows=self.predicted,
            the_code_of_training=code_of("training"),
        )  # fmt: skip

    @property
    def _resumes(self) -> bool:
        return self.run.store.resume


def _file_digest(entry: ModelEntry) -> list[str]:
    """Return the hash of the user's file that makes an estimator."""
    return [entry.params.sha256] if isinstance(entry.params, Estimator) else []


def _on_host(model: FittedModel, backend: Backend) -> FittedModel:
    """Return a model that was read from its files as one of a run whose matrices are on a device."""
    return HostModel(
        model, model.task, model.feature_names, model.n_classes, model.classes, model.notes, backend, ON_THE_HOST
    )
