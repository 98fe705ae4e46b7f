"""A model loaded from its directory: features and estimator, ready to predict on any machine."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal, overload

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.models import FittedModel, Prediction, load_fitted, predict_loaded
from gpupipe.models.fitted.device import join_predictions, matrix_on_host
from gpupipe.pipeline.model.events import ServedEvents
from gpupipe.pipeline.model.feature_files import read_features
from gpupipe.pipeline.model.folder import model_folder
from gpupipe.pipeline.model.input_source import check_reading
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.model.part_checks import (
    check_agreement,
    read_decision,
    read_goal,
    read_importances,
)
from gpupipe.pipeline.model.prediction_report import PredictionReport, merge_reports, report_rows
from gpupipe.pipeline.model.prediction_table import no_predictions
from gpupipe.pipeline.model.rows import BATCH_ROWS, RowsToPredict
from gpupipe.pipeline.model.user_code import read_kernels
from gpupipe.pipeline.parity.replay import verify_model
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.rules import ServedRules
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.pipeline.untrusted.model import UntrustedModel
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Model(LoadedModel):
    """A trained model with its features, as `gpupipe.load_model` returns it.

    Models can be pickled, to other machines too: a pickle holds the files of the model directory, which are written to
    a temporary directory and checked again when it is loaded.

    Attributes
    ----------
    goal : Goal
        Task, target and class labels.
    features : FittedFeatures
    estimator : FittedModel
    decision : Decision
        Calibration and threshold.
    backend : Backend
    manifest : dict
        The content of manifest.json.
    folder : Path
        The model directory.
    rules : tuple of ServedRules
        The rules of ``data:`` that tables to predict must keep.
    engine : {"numpy", "numba"}, optional
        The host's interpreter of the features; None: the backend chooses.
    events : ServedEvents
        How the further tables are read.
    device : {"auto", "cpu", "gpu"}
        The device that was asked for; an unpickled model asks for the same.
    warns : bool
        Whether a prediction issues a `gpupipe.errors.PredictionWarning` for each of the alarms of its report.

    Examples
    --------
    >>> model = load_model("runs/churn")  # doctest: +SKIP
    >>> model.predict({"tenure": 3, "Contract": "One year", "MonthlyCharges": 29.9})  # doctest: +SKIP
    array(['No'], dtype='<U3')
    >>> model.last_prediction_report.columns[0].n_null  # doctest: +SKIP
    0
    """

    features: FittedFeatures
    estimator: FittedModel
    engine: str | None = None
    device: str = "auto"

    def verify(self) -> Verification:
        return verify_model(self)

    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        return predict_rows(self, rows)

    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        table, report = encode_rows(self, rows)
        return self.features.transform(table, self.backend, self.engine), report

    def __reduce__(self) -> tuple[Any, ...]:
        files = _read_files(self.folder, self.manifest)
        changed = {"rules": self.rules, "engine": self.engine, "warns": self.warns}
        return _unpickled, (files, self.device, bool(self.manifest.get("kernels")), changed)


def encode_rows(model: Model, rows: RowsToPredict) -> tuple[Table, PredictionReport]:
    """Return rows as the features of `model` read them, with the report on their values."""
    table = model.features.encode(rows.arrow, model.backend, rows.events, rows.as_of)
    return table, report_rows(table, rows.arrow, model.features.training, model.backend, model.inputs)


def predict_rows(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    """Return the calibrated prediction of rows, in batches, with the report on their values."""
    if model.features.derivation is not None:  # a history must not be cut
        return _predict_batch(model, rows)
    n_rows = rows.arrow.num_rows
    parts = map_row_ranges(
        lambda a, b: _predict_batch(model, rows.between(a, b)), n_rows, model.backend, "predict", BATCH_ROWS
    )
    return join_predictions([prediction for prediction, _ in parts]), merge_reports([report for _, report in parts])


def _predict_batch(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    table, report = encode_rows(model, rows)  # the columns must be right, even if there are no rows
    if rows.arrow.num_rows == 0:
        return no_predictions(model.goal), report
    X = model.features.transform(table, model.backend, model.engine)
    X = matrix_on_host(X, model.backend)  # the estimator is the host's
    parts = map_row_ranges(
        lambda a, b: predict_loaded(model.estimator, X[a:b], str(model.folder)), X.shape[0], model.backend, "predict"
    )
    return model.decision.apply(join_predictions(parts)), report


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: Literal[False] = False,
    engine: HostEngine | None = None,
) -> Model: ...


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: Literal[True],
    limits: Mapping[str, Any] | None = None,
) -> UntrustedModel: ...


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: bool,
    limits: Mapping[str, Any] | None = None,
    engine: HostEngine | None = None,
) -> Model | UntrustedModel: ...


def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: bool = False,
    limits: Mapping[str, Any] | None = None,
    engine: HostEngine | None = None,
) -> Model | UntrustedModel:
    """Load a model.

    Parameters
    ----------
    path : str or Path
        A model directory, or a run directory that holds one.
    device : {"auto", "cpu", "gpu"}
        An untrusted model is used on the CPU.
    allow_code : bool
        Whether the text of users' kernels in the model may be compiled and run. A model without any needs no leave.
    untrusted : bool
        Load and use the model in a child process with limits. Recommended for models from people you do not trust: one
        that crashes, hangs or takes too much memory is then an ArtifactError. The results are the same.
    limits : mapping, optional
        Limits of an untrusted model: ``memory`` in bytes or as text (``"4GiB"``), by default half of the memory that is
        available; ``time`` for each answer in seconds or as text (``"5min"``), by default 120 s and 2 ms more for each
        row. Up to 1,048,576 rows are one question.
    engine : {"numpy", "numba"}, optional
        Interpreter of the features of a trusted model on the CPU. None: NumPy's, which made the training matrix too.
        numba: a compiled one, for a process that scores again and again; its first prediction waits for the compiler.
        The two agree within the tolerances that ``gpupipe kernels`` states. The digits of a prediction depend on this
        choice only, not on the number of rows or of earlier predictions.

    Returns
    -------
    Model or UntrustedModel

    Raises
    ------
    ArtifactError
        If a file is absent, damaged or altered (it is named), the format is not one that this version reads, or the
        model holds code that was not allowed. If the model is untrusted, also if it crashes or exceeds a limit.
    DeviceError
        If a GPU is demanded and cannot be had.
    ConfigError
        If `path` is of another type, `limits` are given for a trusted model, or a GPU is demanded for an untrusted one.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"expected the path of a run directory or a model directory; got {type(path).__name__}",
            fix="gpupipe.load_model(run.path), or run.model, which is loaded already",
        )
    if untrusted:
        from gpupipe.pipeline.untrusted.model import load_untrusted

        if engine is not None:
            raise ConfigError("an engine is chosen for trusted models", where="engine", fix="remove it, or untrusted")
        return load_untrusted(path, device, allow_code=allow_code, limits=limits)
    if limits is not None:
        raise ConfigError("limits apply to untrusted models", where="limits", fix="add untrusted=True, or remove them")
    if engine not in (None, "numpy", "numba"):
        raise ConfigError(f"expected 'numpy' or 'numba', got {engine!r}", where="engine")
    reader = ArtifactReader(model_folder(path))
    # The backend comes before any library that computes is loaded: it says how its threads wait.
    return replace(open_model(reader, choose(device), allow_code), device=device, engine=engine)


def open_model(reader: ArtifactReader, backend: Backend, allow_code: bool) -> Model:
    """Return the model of a directory that was checked, on a backend that was chosen; see `load_model`."""
    folder, manifest = reader.folder, reader.manifest
    with refuse_failures("the model is not one that this version reads", str(folder), "export it again"):
        features = read_features(reader, read_kernels(reader, allow_code))
        goal = read_goal(manifest)
        decision = read_decision(manifest["decision"], goal)
        read_importances(manifest.get("importances"))
        rules = tuple(map(ServedRules.from_json, manifest.get("data", ())))
        events = ServedEvents.from_json(manifest["reading"]["events"], features.derivation)
        check_reading(manifest["reading"], features, events)
        estimator = load_fitted(reader, manifest["estimator"])
        check_agreement(goal, features.features, estimator)
    return Model(
        goal=goal,
        features=features,
        estimator=estimator,
        decision=decision,
        backend=backend,
        manifest=manifest,
        folder=folder,
        rules=rules,
        events=events,
    )


def _read_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a model directory.

    Raises
    ------
    ArtifactError
        If they are not, or no longer, those of `manifest`.
    """
    reader = ArtifactReader(folder)
    if reader.manifest != manifest:
        raise ArtifactError(
            "the model directory has changed since it was loaded, so the model cannot be pickled",
            where=str(folder),
            fix="load it again",
        )
    return {MANIFEST: reader.manifest_bytes, **{name: reader.read(name) for name in reader.names()}}


def _unpickled(files: Mapping[str, bytes], device: str, allow_code: bool, changed: Mapping[str, Any]) -> Model:
    """Return the model of these files, in a temporary directory that exists as long as the model does."""
    folder = Path(mkdtemp(prefix="gpupipe-model-"))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        model = replace(load_model(folder, device, allow_code=allow_code), **changed)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(model, rmtree, folder, ignore_errors=True)
    return model
