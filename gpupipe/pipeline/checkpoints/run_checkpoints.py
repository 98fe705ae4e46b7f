"""The stages of one run: what an interrupted run has left of them is taken up, what they make is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpupipe.backends.base import Backend
from gpupipe.backends.gpu.translation import Refusal
from gpupipe.config import Config, ModelEntry
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.program.builder import View
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.models import FittedModel, Prediction, Resources
from gpupipe.models.estimator import Estimator
from gpupipe.models.fitted.device import HostModel
from gpupipe.models.fitted.scikit_learn import FittedSklearn
from gpupipe.models.neural.ranks.torchrun import launched
from gpupipe.models.neural.settings import Neural
from gpupipe.pipeline.checkpoints.contents import (
    KeptModel,
    read_fitted_features,
    read_model,
    write_fitted_features,
    write_model,
)
from gpupipe.pipeline.checkpoints.keys import Key, code_of, digest, features_digest, rows_digest
from gpupipe.pipeline.checkpoints.store import Store
from gpupipe.pipeline.training import Trained
from gpupipe.typing import Array

TAKEN_UP = "taken from the interrupted run"
# What is kept may cost so much of the time that made it; until then it waits. Measured, in seconds of processor time: a
# result, and loading the library that writes scikit-learn's models.
SHARE = 0.02
RESULT_SECONDS, LIBRARY_SECONDS = 0.02, 2.0
ON_THE_HOST = Refusal("the model was taken from the interrupted run, in its portable form", "run without --resume")


@dataclass(eq=False)
class Stages:
    """What is kept of a run's stages.

    Attributes
    ----------
    store : Store
    key : Key
        Of the run's table and target.
    share : float
        How much of the time that made a result keeping it may cost.
    waiting : dict of bool to list of (float, callable)
        The seconds that made a result, and what keeps it; under True those that need the library.
    """

    store: Store = field(default_factory=Store)
    key: Key = field(default_factory=Key)
    share: float = SHARE
    waiting: dict[bool, list[tuple[float, Callable[[], None]]]] = field(default_factory=lambda: {False: [], True: []})

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run the stages; if they end with an error, or are asked to stop, all that was done is kept."""
        try:
            yield
        except BaseException as error:
            # A notebook's interrupt leaves time for that; what ends a command at once is a kind of its own.
            if isinstance(error, Exception) or type(error) is KeyboardInterrupt:
                self.flush()
            raise

    def keep(self, key: Key, seconds: float, write: Callable[[Path], None], by_library: bool = False) -> None:
        """Keep a result that took so many seconds, as soon as that costs little beside what would be lost."""
        self.store.used.add(key.name)
        waiting = self.waiting[by_library]
        waiting.append((seconds, partial(self.store.keep, key, write)))
        costs = RESULT_SECONDS * len(waiting) + LIBRARY_SECONDS * by_library
        if costs <= self.share * sum(seconds for seconds, _ in waiting):
            _flush(waiting)

    def flush(self) -> None:
        """Keep what waits."""
        for waiting in self.waiting.values():
            _flush(waiting)

    def of(self, label: str, config: Config, backend: Backend, fit_mask: Array, parts: Mapping[str, Array]) -> Round:
        """Return the stages of one set of training rows; `label` is put before their names."""
        if self.store.folder is None:
            return Round(self, label, config, backend)
        key = self.key.of(
            "", the_features=features_digest(config), the_training_rows=rows_digest(fit_mask),
            the_seed=digest(config.seed), the_code_of_features=code_of("features"),
        )  # fmt: skip
        predicted = digest({part: rows_digest(mask) for part, mask in parts.items()})
        return Round(self, label, config, backend, key, predicted)


def _flush(waiting: list[tuple[float, Callable[[], None]]]) -> None:
    while waiting:
        waiting.pop(0)[1]()


NOTHING_KEPT = Stages()
"""What a job keeps by default."""


@dataclass(frozen=True)
class Round:
    """The stages of one set of training rows: features, then models.

    Attributes
    ----------
    stages : Stages
    label : str
    config : Config
    backend : Backend
    key : Key
        Of the features, but for the view.
    predicted : str
        Which rows are predicted.
    """

    stages: Stages
    label: str
    config: Config
    backend: Backend
    key: Key = field(default_factory=Key)
    predicted: str = ""

    def features(self, view: View, derivation: Derivation | None) -> tuple[FittedFeatures | None, str]:
        """Return the features of a view that were kept, or None and why not."""
        read = partial(read_fitted_features, derivation=derivation, backend=self.backend)
        return self.stages.store.load(self._features_key(view), read)

    def keep_features(self, view: View, features: FittedFeatures) -> None:
        """Keep features, if all of them is here and numbers.

        A user's kernel would be code to be kept, and run again; of a cluster, the folds of the rows are on the workers.
        """
        if not features.program.calls and (features.folds is None or hasattr(features.folds, "dtype")):
            key = self._features_key(view)
            write = partial(write_fitted_features, key=key, features=features, backend=self.backend)
            self.stages.keep(key, 0.0, write)

    def model(self, entry: ModelEntry) -> tuple[KeptModel | None, str]:
        """Return the model of an entry that was kept, or None and why not. A network takes up its own state."""
        if isinstance(entry.params, Neural):
            return None, ""
        on_device = self.backend.name == "gpu"
        if on_device and self.config.device_options.fallback == "forbid":
            return None, "a model that was kept is the host's, and this run may not leave the GPU" * self._resumes
        found, why = self.stages.store.load(self._model_key(entry), read_model)
        if found is not None and on_device:
            found = replace(found, model=_on_host(found.model, self.backend))
        return found, why

    def keep_model(self, trained: Trained, predictions: Mapping[str, Prediction]) -> None:
        """Keep a trained model; a network has kept its own state, of all epochs."""
        if isinstance(trained.entry.params, Neural):
            return
        key, model = self._model_key(trained.entry), trained.model
        by_library = self.backend.name == "gpu" or model.library == FittedSklearn.library
        write = partial(write_model, key=key, trained=trained, predictions=predictions, backend=self.backend)
        self.stages.keep(key, trained.seconds, write, by_library)

    def resources(self, entry: ModelEntry, resources: Resources) -> Resources:
        """Return what the training of an entry may use: a network has a place for its state."""
        if not isinstance(entry.params, Neural):
            return resources
        key = self._model_key(entry).of("", the_processes=digest(max(resources.n_processes, launched())))
        store = self.stages.store
        return replace(resources, checkpoint=store.state_file(key), resume=store.resume)

    def _features_key(self, view: View) -> Key:
        return self.key.of(f"{self.label}features of the {view} view", the_view=view)

    def _model_key(self, entry: ModelEntry) -> Key:
        model = [entry.name, entry.params.model_dump(mode="json"), *_file_digest(entry)]
        return self.key.of(
            f"{self.label}train {entry.label}", the_model=digest(model), the_predicted_rows=self.predicted,
            the_code_of_training=code_of("training"),
        )  # fmt: skip

    @property
    def _resumes(self) -> bool:
        return self.stages.store.resume


def _file_digest(entry: ModelEntry) -> list[str]:
    """Return the hash of the user's file that makes an estimator."""
    return [entry.params.sha256] if isinstance(entry.params, Estimator) else []


def _on_host(model: FittedModel, backend: Backend) -> FittedModel:
    """Return a model that was read from its files as one of a run whose matrices are on a device."""
    return HostModel(
        model, model.task, model.feature_names, model.n_classes, model.classes, model.notes, backend, ON_THE_HOST
    )
