"""`ServedModel`: a scorer with the names of its outputs, its queue and its documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, starmap
from pathlib import Path
from time import time
from typing import Any

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.backends.engines import scorer_engine
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.inference.prediction.prediction_arrays import prediction_values
from gpupipe.inference.scorer.outputs import Output, incompatibilities, outputs_of
from gpupipe.inference.scorer.scorer import Scorer
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.goal import Goal
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.serve.coalescer import Coalescer, Columns
from gpupipe.serve.served_reference import ServedReference

TRAINING = "training_summary.json"

Identity = tuple[str, int, int, int]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that answers requests.

    `name` is that in the Open Inference Protocol. `training` has a summary of each input column over the training rows,
    and `reference` is what predicted rows are compared with, if the model has them. `identity` is from `identify`.
    `loaded_at` is in seconds since 1970-01-01.
    """

    scorer: Scorer
    name: str
    training: dict[str, dict[str, Any]]
    outputs: tuple[Output, ...]
    reference: ServedReference | None = None
    identity: Identity | None = None
    loaded_at: float = field(default_factory=time)

    @staticmethod
    def load(
        path: str | Path,
        name: str = "",
        allow_code: bool = False,
        prepare_explanations: bool = False,
        trust: tuple[str, ...] = (),
    ) -> ServedModel:
        """Load, check and warm up a model.

        `path` is a run directory, a model directory, a folder of generations, or a symbolic link to one. `name`
        defaults to that of its run. If `allow_code`, the Python code in the model may run. If `prepare_explanations`,
        the first explanation should take no longer than later ones. `trust` are the keys of which one must have signed
        the model. Raise ArtifactError if the model is missing, corrupt, unsigned, or has an unsupported format;
        ConfigError if it has code that is not allowed; DataError, ConfigError if explanations are to be prepared, and
        the model cannot be explained.
        """
        from gpupipe.inference.scorer.load import open_scorer

        identity = identify(path)  # before reading, so that a change in the meantime is noticed
        folder = model_folder(Path(path).resolve())  # the directory, even if the link is switched while it is read
        reader = ArtifactReader(folder, trust)
        scorer = open_scorer(reader, allow_code, scorer_engine(None))
        if prepare_explanations:
            scorer.prepare_explanations()
        training = {}
        if TRAINING in reader.names():
            training = reader.json(TRAINING)["columns"]
        names = set(scorer.inputs)
        training = {column: summary for column, summary in training.items() if column in names}
        name = name or str(scorer.manifest.get("name", "model"))
        outputs = outputs_of(scorer)
        reference = ServedReference.load(reader, scorer, [output.name for output in outputs])
        return ServedModel(scorer, name, training, outputs, reference, identity)

    def __repr__(self) -> str:
        return f"ServedModel({self.name!r}, version {self.version}, {len(self.scorer.inputs)} inputs)"

    @property
    def version(self) -> str:
        """The first digits of the hash of its files, which identifies its content."""
        return str(self.scorer.manifest.get("manifest_sha256", ""))[:12] or "0"

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(output.name for output in self.outputs)

    @cached_property
    def leveled_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that can have levels unseen in training."""
        return tuple(column.source for column in self.scorer.columns if column.levels and column.kind == "categorical")

    def columns(self, prediction: Prediction) -> Columns:
        """Return the values of each output as Python values."""
        goal, decision = self.scorer.goal, self.scorer.decision
        if not goal.targets:
            return _columns(prediction, goal, decision)
        each = zip(prediction.parts, goal.targets, decision.targets, strict=True)
        return list(chain.from_iterable(starmap(_columns, each)))

    def coalescer(self, max_rows: int, wait_seconds: float, on_batch: Callable[[int], None]) -> Coalescer:
        """Return a queue that predicts with this model."""
        scorer = self.scorer
        return Coalescer(lambda cells: self.columns(scorer.predict_cells(cells)), max_rows, wait_seconds, on_batch)

    def refuse_incompatible(self, new: ServedModel) -> None:
        """Raise ConfigError if clients of this model cannot use `new`: other inputs, outputs or task."""
        problems = incompatibilities(self.scorer, new.scorer, "the served model")
        if problems:
            raise ConfigError(
                "the new model is not compatible with the served one:",
                problems=problems,
                fix="restart the server to serve it",
            )


def identify(path: str | Path) -> Identity | None:
    """Return what changes when a model is replaced: the directory that a link or pointer names, and its manifest.

    None while the path has no model.
    """
    try:
        folder = model_folder(Path(path).resolve())
        found = (folder / MANIFEST).stat()
    except (GpupipeError, OSError, RuntimeError):  # RuntimeError: a link to itself
        return None
    return str(folder), found.st_ino, found.st_mtime_ns, found.st_size


def _columns(prediction: Prediction, goal: Goal, decision: Decision) -> Columns:
    """Return the values of the outputs of one target as Python values."""
    values = prediction_values(prediction, goal, decision)
    probability, intervals = prediction.probability, decision.intervals
    if probability is not None:
        of_classes = [1.0 - probability, probability] if probability.ndim == 1 else probability.T
        columns = [values, *of_classes, *([] if intervals is None else intervals.members(probability).T)]
        return [column.tolist() for column in columns]
    if prediction.distance is not None:
        return [values.tolist(), prediction.distance.tolist()]
    ends = () if intervals is None else intervals.interval(prediction.output)
    columns = [values] if values.ndim == 1 else list(values.T)
    return [column.tolist() for column in (*columns, *ends)]
