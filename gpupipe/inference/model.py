"""`Model` and `load_model`: a model loaded from its directory, ready to predict on any machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from gpupipe.artifact import ArtifactReader, PathLike, trusted_keys
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.backends.engines import scorer_engine
from gpupipe.errors import ConfigError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.pickles import read_files, restore_model
from gpupipe.inference.prediction.batches import encode_rows, explain_rows, predict_rows
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.inference.prediction.input_source import check_reading, strips_texts
from gpupipe.inference.prediction.parts import ModelParts, read_parts
from gpupipe.inference.prediction.prediction_report import PredictionReport
from gpupipe.inference.prediction.rows import RowsToPredict
from gpupipe.model_parts.folder import model_folder
from gpupipe.models import FittedModel, Prediction
from gpupipe.table.schema import RAW_KINDS
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.drift.report import DriftReport
    from gpupipe.inference.evaluation.evaluation import Evaluation
    from gpupipe.inference.explanation.compute import ModelExplainer
    from gpupipe.inference.onnx.export import OnnxExport
    from gpupipe.inference.prediction.few_rows import FewRowsEncoder
    from gpupipe.inference.scorer.scorer import Scorer
    from gpupipe.inference.sql.export import SqlExport
    from gpupipe.inference.untrusted.model import UntrustedModel
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Model(LoadedModel):
    """A trained model and its features, as returned by `gpupipe.load_model`.

    A model can be pickled and sent to other machines. The pickle contains the files listed in manifest.json; unpickling
    writes them to a temporary directory and checks them again.

    Attributes
    ----------
    goal : Goal
        Task, target and class labels.
    features : FittedFeatures
        The feature program, its lookup tables and the schema of the input columns.
    estimator : FittedModel
        The estimator, on the CPU.
    decision : Decision
        Calibration and threshold.
    backend : Backend
        The device that features are computed on.
    manifest : dict
        The content of manifest.json.
    folder : Path
        The model directory.
    rules : tuple of ServedRules
        The rules of ``data:`` that are enforced on tables to predict.
    events : ServedEvents
        Settings for reading the further tables.
    device : {"auto", "cpu", "gpu"}
        The requested device; used again when the model is unpickled.
    warns : bool
        Whether each alarm of a prediction report is issued as a `gpupipe.PredictionWarning`.
    trust : tuple of str
        The trusted keys, one of which has signed the model; files that are read later are verified again.

    Examples
    --------
    Train a small model, then load and use it as a service would:

    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline, load_model
    >>> frame = pd.DataFrame({"age": [31, 45, 27, 52], "plan": ["a", "b", "a", None], "left": [0, 1, 0, 1]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> pipeline = Pipeline(pd.concat([frame] * 25), target="left", models=["logistic_regression"])
    >>> run = pipeline.run(f"{folder.name}/run", quiet=True)
    >>> model = load_model(run.path)
    >>> model.predict({"age": 30, "plan": "a"})
    array([0])

    The report compares the predicted rows with the training rows; what differs is a `gpupipe.PredictionWarning`, too:

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     model.predict(pd.DataFrame({"age": [30, 52], "plan": ["a", "z"]}))
    array([0, 1])
    >>> model.last_prediction_report.columns[1].unseen_levels
    ('z',)
    >>> model.verify().passed
    True
    >>> folder.cleanup()
    """

    features: FittedFeatures
    estimator: FittedModel
    device: str = "auto"

    def verify(self) -> Verification:
        from gpupipe.inference.parity.replay import verify_model

        return verify_model(self)

    def drift(
        self,
        data: Any,
        by: str | None = None,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
    ) -> DriftReport:
        """Compare rows with the training rows, without these: the model has bins and levels of each column.

        Every row is counted, in one pass over chunks, so files may be larger than memory. At most 50,000 evenly spaced
        rows are predicted to compare the scores, or all rows if features are computed from the history of a row. If the
        rows have the target, metrics are compared as well.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`.
        by : str, optional
            ``"hour"``, ``"day"``, ``"week"`` or ``"month"``: evaluate each period by itself too, to find since when
            rows have drifted. The time column is that of the split of the run, or the only one of the inputs;
            ``"day:COLUMN"`` names another.

        Returns
        -------
        DriftReport

        Raises
        ------
        SchemaError, ConfigError, DataError
            As `predict`; ConfigError also if `by` names no unit or no column.
        ArtifactError
            If an earlier version wrote the model, without bins and levels.
        LimitError
            If there are more than 400 periods.

        Examples
        --------
        >>> import tempfile
        >>> import pandas as pd
        >>> from gpupipe import Pipeline
        >>> frame = pd.DataFrame({"age": [i % 60 for i in range(1000)], "left": [i % 60 > 30 for i in range(1000)]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> run = Pipeline(frame, target="left", models=["logistic_regression"]).run(f"{folder.name}/run", quiet=True)
        >>> run.model.drift(frame).severity
        'none'
        >>> found = run.model.drift(frame[["age"]] + 20)
        >>> found.severity, found.columns[0].change
        ('high', 'median about 29 → about 48.6, 32.0% above the training range')
        >>> folder.cleanup()
        """
        from gpupipe.inference.drift.comparison import detect_drift
        from gpupipe.inference.drift.detection import load_reference

        return detect_drift(self, load_reference(self), self._prediction_of, data, by, tables, as_of)

    def evaluate(
        self,
        data: Any,
        by: str | None = None,
        slices: Sequence[str] = (),
        cost: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        as_of: str | date | datetime | None = None,
    ) -> Evaluation:
        """Measure the model on rows whose targets are known, and estimate its metrics where they are not.

        Every row is predicted, in one pass over chunks. A period is measured if at least 90 % of its rows have a label.
        Metrics of other periods are the expected ones for targets that follow the outputs of the model, calibrated on
        the labels of earlier periods. Their intervals have the sampling of the labels, the calibration, and the errors
        of such estimates in earlier periods with labels.

        A change of the targets of the same inputs cannot be seen without labels. A metric has no estimate if
        that of the latest period with labels was wrong by more than its errors explain, or if the inputs are outside of
        the training rows. Without an earlier period with labels, estimates are marked as untested.

        Parameters
        ----------
        data, tables, as_of
            As in `predict`; the target column is null where it is not known, or missing.
        by : str, optional
            As in `drift`. Without it, the rows with a label and those without are the two periods.
        slices : sequence of str
            Columns, of the model or not: the labelled rows of each value or bin are measured too.
        cost : mapping of str to float, optional
            Binary: ``false_positive``, ``false_negative``, and ``true_positive`` and ``true_negative`` if they are not
            0. Adds the metric cost, the mean cost of a decision; a model does not have the costs of its run.

        Returns
        -------
        Evaluation

        Raises
        ------
        ConfigError
            If the model has no target or is a ranking, a column does not exist, or the costs are invalid.
        SchemaError, DataError, ArtifactError, LimitError
            As `drift`.

        Examples
        --------
        >>> import tempfile
        >>> import pandas as pd
        >>> from gpupipe import Pipeline
        >>> frame = pd.DataFrame({"age": [i % 60 for i in range(2000)]})
        >>> frame["left"] = [i % 7 > i % 60 / 9 for i in range(2000)]
        >>> folder = tempfile.TemporaryDirectory()
        >>> run = Pipeline(frame, target="left", models=["logistic_regression"]).run(f"{folder.name}/run", quiet=True)
        >>> found = run.model.evaluate(frame, slices=["age"])
        >>> found.periods[0].status, found.fails("worse"), [str(each) for each in found.slices[1:3]]
        ('measured', False, ['age: below 14 (476 rows)', 'age: 14 to below 29 (501 rows)'])
        >>> run.model.evaluate(frame[["age"]]).periods[0].status
        'untested'
        >>> folder.cleanup()
        """
        from gpupipe.inference.evaluation.evaluate import EvaluatedRows, evaluate_rows, load_record, read_costs

        options = EvaluatedRows(tuple(slices), tables, as_of, None if cost is None else read_costs(cost))
        return evaluate_rows(self, load_record(self), self._prediction_of, data, by, options)

    def scorer(self, engine: HostEngine | None = None) -> Scorer:
        """Return the model compiled for single rows: from a dict of raw values to the answer in microseconds.

        Parameters
        ----------
        engine : {"numpy", "numba"}, optional
            ``"numba"``: loops compiled to machine code, which takes seconds once and is then cached on disk. None:
            numba if it is installed. The results are the same, bit for bit, as those of this model with NumPy.

        Returns
        -------
        Scorer

        Raises
        ------
        ConfigError
            If `engine` is unknown or not installed.
        """
        from gpupipe.inference.scorer.scorer import Scorer

        return Scorer.of(
            ModelParts(self.features, self.goal, self.decision, self.rules, self.estimator),
            engine=scorer_engine(engine),
            manifest=self.manifest,
            open_model=lambda: self,
            open_explainer=lambda: self.explainer,
        )

    def to_onnx(self, path: str | Path) -> OnnxExport:
        """Write the model as one ONNX file, from raw columns by name to predictions, for any ONNX runtime.

        The file appears once its predictions for the recorded rows equal those of the model in ONNX Runtime and in
        ``onnx.reference``, with differences of at most 1e-5.

        Parameters
        ----------
        path : str or Path
            The file to write or replace.

        Returns
        -------
        OnnxExport
            Inputs, outputs and differences.

        Raises
        ------
        ConfigError
            If onnx or ONNX Runtime is not installed, or ONNX cannot express the model; the message lists each part.
        LimitError
            If the file would exceed 2 GiB.
        ArtifactError
            If the model has no recorded rows, or a runtime computes other predictions; no file is written.
        """
        from gpupipe.inference.onnx.export import write_onnx

        return write_onnx(self, Path(path))

    def to_sql(
        self,
        dialect: str,
        table: str | None = None,
        *,
        tables: Mapping[str, str] | None = None,
        as_of: str | None = None,
        keys: Sequence[str] = (),
        features: bool = False,
        rules: bool = False,
        uri: str | None = None,
    ) -> SqlExport:
        """Return the model as one SQL query, from the raw columns of a table to predictions and probabilities.

        The query is returned once its predictions for the recorded rows equal those of the model in the engine of the
        dialect, with differences of at most 1e-6 of a probability, or 1e-5 of the largest value.

        Parameters
        ----------
        dialect : {"duckdb", "postgres", "sqlite", "snowflake", "bigquery", "spark"}
            DuckDB and SQLite run in this process; PostgreSQL needs `uri`. Queries of other dialects, and of PostgreSQL
            without `uri`, are parsed, not executed.
        table : str, optional
            The table with the raw columns, written as in a query: ``shop.customers``; default: ``input``. If training
            builds the rows from events, the default with `as_of` is one row for each key with an event before it.
        tables : mapping of str to str, optional
            Tables of the database for the event tables of the model; default: tables of the same names.
        as_of : str, optional
            A date or time that replaces the cut-off dates of the training. Without it, a model whose rows are built
            from events reads a column ``as_of``.
        keys : sequence of str
            Columns of the table to copy to the result, such as an identifier.
        features : bool
            Also return the features, in columns ``feature_NAME``.
        rules : bool
            Also return the rules of ``data:`` that a row violates, as a text or null, in the column ``violated_rules``.
        uri : str, optional
            A PostgreSQL database, for a temporary table with the recorded rows.

        Returns
        -------
        SqlExport
            The query as `SqlExport.text`, its inputs, and the differences.

        Raises
        ------
        ConfigError
            If sqlglot or the library of the engine is not installed, or SQL cannot express the model; the message
            lists each part.
        DataError
            If the database of `uri` cannot be reached.
        ArtifactError
            If the model has no recorded rows, or the engine computes other predictions.
        """
        from gpupipe.inference.sql.export import QueryOptions, write_sql

        return write_sql(self, dialect, QueryOptions(table, tables or {}, as_of, keys, features, rules, uri))

    def _prediction_of(self, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
        return predict_rows(self, rows)

    @cached_property
    def explainer(self) -> ModelExplainer:
        """Explanations of rows of the feature matrix; made once."""
        from gpupipe.inference.explanation.compute import ModelExplainer

        return ModelExplainer.of(self)

    @cached_property
    def few_rows(self) -> FewRowsEncoder | None:
        """The encoder of few rows from memory; None on a GPU, and if columns are derived from texts or a history."""
        has_texts = any(column.kind in RAW_KINDS for column in self.features.input_schema)
        if self.features.derivation is not None or has_texts or self.backend.host is not self.backend:
            return None
        from gpupipe.inference.prediction.few_rows import FewRowsEncoder

        return FewRowsEncoder(self.features.input_schema, self.rules, strips_texts(self.manifest["reading"]))

    def _explanation_of(self, rows: RowsToPredict, interactions: bool) -> Explanation:
        return explain_rows(self, rows, interactions)

    def _features_of(self, rows: RowsToPredict) -> tuple[Array, PredictionReport]:
        table, report = encode_rows(self, rows)
        return self.features.transform(table, self.backend), report

    def __reduce__(self) -> tuple[Any, ...]:
        files = read_files(self.folder, self.manifest)
        changed = {"rules": self.rules, "warns": self.warns}
        load = partial(load_model, device=self.device, allow_code=bool(self.manifest.get("kernels")))
        return restore_model, (load, files, changed)


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: Literal[False] = False,
    trust: PathLike | Sequence[PathLike] | None = None,
) -> Model: ...


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: Literal[True],
    limits: Mapping[str, Any] | None = None,
    trust: PathLike | Sequence[PathLike] | None = None,
) -> UntrustedModel: ...


@overload
def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: bool,
    limits: Mapping[str, Any] | None = None,
    trust: PathLike | Sequence[PathLike] | None = None,
) -> Model | UntrustedModel: ...


def load_model(
    path: str | Path,
    device: str = "auto",
    *,
    allow_code: bool = False,
    untrusted: bool = False,
    limits: Mapping[str, Any] | None = None,
    trust: PathLike | Sequence[PathLike] | None = None,
) -> Model | UntrustedModel:
    """Load a model and check each of its files.

    Parameters
    ----------
    path : str or Path
        A model directory, a run directory that contains one, or a folder of generations.
    device : {"auto", "cpu", "gpu"}
        Where features are computed. ``"auto"``: a GPU if there is a usable one. Untrusted models run on the CPU.
    allow_code : bool
        Allow compiling and running the custom kernels in the model. Without kernels it has no effect.
    untrusted : bool
        Load and use the model in a child process with limits on memory and time. Use it for models from people you do
        not trust: a model that crashes, hangs or takes too much memory then raises an ArtifactError. Results are the
        same.
    limits : mapping, optional
        Limits of an untrusted model. ``memory``: in bytes or as text (``"4GiB"``); default: half of the available
        memory. ``time`` per request: in seconds or as text (``"5min"``); default: 120 s plus 2 ms per row. A request
        has at most 1,048,576 rows.
    trust : str, Path or list of these, optional
        Public keys or certificates in PEM, which `gpupipe sign` has the private ones of. The signature of one of them
        is verified over all files before anything is parsed. Default: no signature is needed.

    Returns
    -------
    Model or UntrustedModel
        An UntrustedModel if `untrusted`, else a Model.

    Raises
    ------
    ArtifactError
        If a file is missing, corrupt or altered (the message names it), the format version is not supported, or the
        model contains code and `allow_code` is false. With `untrusted`, also if the model crashes or exceeds a limit;
        with `trust`, if it is not signed with a trusted key, or any file was changed, added or removed since.
    DeviceError
        If a GPU is requested and none is usable.
    ConfigError
        If `path` is not a path, `limits` are given for a trusted model, a GPU for an untrusted one, or `trust` needs
        ``pip install 'gpupipe[sign]'`` or names something else than a key.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline, load_model
    >>> frame = pd.DataFrame({"age": range(100), "price": [0.5 * age + 2 for age in range(100)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = Pipeline(frame, target="price", models=["ridge"]).run(f"{folder.name}/run", quiet=True)
    >>> model = load_model(run.path)
    >>> model.predict({"age": 40}).round(0)
    array([22.])
    >>> model.goal.task
    'regression'
    >>> folder.cleanup()
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"expected the path of a run directory or a model directory; got {type(path).__name__}",
            fix="use gpupipe.load_model(run.path), or run.model, which is already loaded",
        )
    keys = trusted_keys(trust)
    if untrusted:
        from gpupipe.inference.untrusted.model import load_untrusted

        return load_untrusted(path, device, allow_code=allow_code, limits=limits, trust=keys)
    if limits is not None:
        what = "limits apply to untrusted models only"
        raise ConfigError(what, where="limits", fix="add untrusted=True, or remove limits")
    reader = ArtifactReader(model_folder(path), keys)
    # Choosing a backend sets how threads wait, which must precede the import of any compute library.
    return replace(open_model(reader, choose(device), allow_code), device=device)


def open_model(reader: ArtifactReader, backend: Backend, allow_code: bool) -> Model:
    """Return the model of a checked directory on the given backend; see `load_model`."""
    folder = reader.folder
    manifest = reader.manifest
    parts = read_parts(reader, allow_code)
    reading = manifest["reading"]
    with refuse_failures("manifest.json is invalid: reading", str(folder), "export it again"):
        events = ServedEvents.from_json(reading["events"], parts.features.derivation)
        check_reading(reading, parts.features, events)
    return Model(**vars(parts), backend=backend, manifest=manifest, folder=folder, events=events, trust=reader.trust)
