"""Python interface: `Pipeline` and `run`."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.backends import Device
from gpupipe.config import Config, load_config, parse_config
from gpupipe.config.cluster import is_client
from gpupipe.config.error_text import describe_python_value
from gpupipe.config.resolved_yaml import summary_yaml
from gpupipe.config.scalars import read_size
from gpupipe.errors import ConfigError
from gpupipe.pipeline.api.arguments import (
    WarningListener,
    name_columns,
    name_split_columns,
    place_values,
    python_errors,
    require_count,
    require_place,
    source_section,
    with_client,
    with_data,
    with_device,
)
from gpupipe.pipeline.api.feature_access import FeatureAccess
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.display.console import Console, is_interactive
from gpupipe.timeline.display.text import describe_pipeline
from gpupipe.training.selection.leaderboard import leaderboard_rows
from gpupipe_kernels.engines import EngineSetting

if TYPE_CHECKING:
    from distributed import Client

    from gpupipe.plan.run_plan import RunPlan

Section = Mapping[str, Any]


class Pipeline(FeatureAccess):
    """Pipeline from a table to a trained, evaluated and exported model.

    The arguments are the sections of a configuration file, with the same names, short forms and defaults; the
    configuration reference describes all settings. By default, features are chosen by the kind of each column and
    models by the task. All errors in the arguments are reported at once.

    Parameters
    ----------
    source : frame, str, Path, list of paths, dict or Config
        The table. A frame: pandas, polars, pyarrow, DuckDB, cuDF, or any object with ``__arrow_c_stream__``; its rows
        are copied now. A Dask DataFrame: its rows stay in its partitions, on the workers of a client. A str or Path: a
        file, folder, glob or URL. A dict: a ``source`` section with reader options, such as
        ``{"path": "customers.csv", "csv": {"delimiter": ";"}}``. A `Config`: a whole configuration, without
        further arguments.
    target : str, list of str, Series or array, optional
        The column to predict, or columns to predict together; or its values, one for each row of a frame. Omit it for
        clustering and embeddings.
    positive : label or list of labels, optional
        Values of the target that are the positive class.
    task : {"quantile", "ranking"}, optional
        Predict quantiles of a numeric target, or the order of the rows of each group by it.
    quantiles : list of float, optional
        Their levels, ascending, in (0, 1). Default: 0.1, 0.5 and 0.9.
    weight : str, Series or array, optional
        Column with the weight of each row, or its values.
    columns, drop : str or list of str, optional
        Columns to keep, or to drop: names and globs; `drop` also takes selectors such as ``@text``.
    where : str, optional
        Filter of the rows: ``"2.5 <= fare <= 100 and miles is not None"``.
    schema : dict, optional
        Column name to kind or dtype: ``{"zip": "categorical"}``. Other columns are inferred.
    tables : dict of str to dict, optional
        Further tables by name: ``{"orders": {"path": frame_or_path, "on": "customer", "cardinality": "one_to_many"}}``.
    data : dict, optional
        Rules for columns, enforced in training and when the model predicts: ``{"age": {"range": [0, 120]}}``.
    split : dict or number, optional
        The configuration section; 0.2 is short for ``{"test_size": 0.2}``, 5 for ``{"cv": 5}``.
    evaluate, limits, monitor, report, track, gpu : dict, optional
        The sections of these names.
    cluster : dict or distributed.Client, optional
        The configuration section, or a client whose workers are used; it stays open. A Dask DataFrame is computed by
        Dask's current client by default.
    features : list, optional
        Feature ops, each ``{name: settings}``. A kernel may be the decorated function itself.
    models : list or str, optional
        Candidates of the leaderboard: names, or ``{name: parameters}`` with scikit-learn's parameter names.
    name, seed : str and int, optional
        First part of the run directory's name; random seed of splits, folds and models.
    device : {"auto", "cpu", "gpu"}, optional
        Device to run on. "auto" uses the GPU if it can be used; "gpu" raises DeviceError if it cannot.
    fallback : {"forbid", "allow"}, optional
        Whether steps that the GPU cannot run raise DeviceError or run on the CPU.
    engine : {"auto", "numpy", "numba"}, optional
        Engine for statistics, history features and texts on the CPU.
    output : str or Path, optional
        Folder in which run directories are created. Default: ``runs/``.
    output_mode : {600, 640, 644, 660, 664, 666}, optional
        Permissions of the files of a run; 640: the group can read them.

    Attributes
    ----------
    config : Config
        The validated configuration, with every default filled in.

    Raises
    ------
    ConfigError
        If an argument has an invalid type or value; ``problems`` has one line per error, with its path.
    DataError, SchemaError
        If a frame cannot be converted to Arrow: a column mixes types, or two columns have the same name.

    Examples
    --------
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> rows = {"age": [31, 45, 27, 52], "plan": ["a", "b", "a", None], "left": [0, 1, 0, 1]}
    >>> frame = pd.concat([pd.DataFrame(rows)] * 25)
    >>> pipeline = gp.Pipeline(frame, target="left", models=["logistic_regression", "xgboost"])
    >>> pipeline
    Pipeline('pipeline': pandas.DataFrame, 100 rows x 3 columns; target 'left'; 1 op; logistic_regression, xgboost)
    """

    def __init__(
        self,
        source: Any = None,
        *,
        target: Any = None,
        positive: Any = None,
        task: Literal["quantile", "ranking"] | None = None,
        quantiles: Sequence[float] | None = None,
        weight: Any = None,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        where: str | None = None,
        schema: Section | None = None,
        tables: Mapping[str, Section] | None = None,
        data: Section | None = None,
        split: Section | float | None = None,
        features: Sequence[Any] | None = None,
        models: Sequence[Any] | Section | str | None = None,
        evaluate: Section | None = None,
        limits: Section | None = None,
        monitor: Section | None = None,
        report: Section | None = None,
        track: Section | None = None,
        gpu: Section | None = None,
        cluster: Section | Client | None = None,
        name: str | None = None,
        seed: int | None = None,
        device: Device | None = None,
        fallback: Literal["forbid", "allow"] | None = None,
        engine: EngineSetting | None = None,
        output: str | os.PathLike[str] | None = None,
        output_mode: int | None = None,
    ) -> None:
        frame, (source, target) = source, place_values(source, target, "target")
        source, weight = place_values(source, weight, "weight")
        names = {"target": target, "weight": weight, "columns": columns, "drop": drop, "schema": schema}
        about_rows = {name: name_columns(given, frame) for name, given in names.items()}
        about_rows |= {"positive": positive, "task": task, "quantiles": quantiles, "where": where}
        sections = {
            "name": name, "seed": seed, "device": device, "fallback": fallback, "engine": engine, "gpu": gpu,
            "cluster": cluster, "tables": tables, "features": features, "models": models,
            "data": name_columns(data, frame), "split": name_split_columns(split, frame), "evaluate": evaluate,
            "limits": limits, "monitor": monitor, "report": report, "track": track,
            "output": os.fspath(output) if isinstance(output, os.PathLike) else output, "output_mode": output_mode,
        }  # fmt: skip
        about_rows, sections = _given(about_rows), _given(sections)
        if is_client(cluster):
            sections["cluster"] = {"scheduler": cluster}
        if isinstance(source, Config):
            if also := [*about_rows, *sections]:
                fix = "set it in the configuration, or give the table instead of a Config"
                raise ConfigError(f"a Config takes no further argument; got {', '.join(also)}", where=also[0], fix=fix)
            self.config = source
            return
        with python_errors():
            self.config = parse_config({"source": source_section(source), **sections}, source=about_rows)

    @classmethod
    def from_yaml(
        cls, path: str | os.PathLike[str], device: Device | None = None, overrides: Sequence[str] = ()
    ) -> Pipeline:
        """Return the pipeline of a YAML configuration file.

        Parameters
        ----------
        path : str or Path
        device : {"auto", "cpu", "gpu"}, optional
            Device instead of that of the file.
        overrides : sequence of str
            Changes of single fields, as ``--set`` on the command line: ``["seed=8", "split.test_size=0.3"]``.

        Raises
        ------
        ConfigError
            If the file cannot be read or has errors; ``problems`` has one line per error, with line and column.

        Examples
        --------
        >>> import gpupipe as gp
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "churn.yaml")
        ...     _ = path.write_text("source: {generate: churn, rows: 1000, target: Churn}\\nmodels: [xgboost]\\n")
        ...     gp.Pipeline.from_yaml(path, overrides=["models.xgboost.params.max_depth=8"])
        Pipeline('churn': churn; target 'Churn'; 1 op; xgboost)
        """
        with python_errors():
            return cls(load_config(path, with_device(overrides, device)))

    @classmethod
    def from_dict(
        cls, settings: Mapping[str, Any], device: Device | None = None, overrides: Sequence[str] = ()
    ) -> Pipeline:
        """Return the pipeline of a dict whose keys are the sections of a configuration file.

        Parameters
        ----------
        settings : mapping
            Sections as `yaml.safe_load` returns them. The ``path`` of the source and of further tables may be a frame.
        device : {"auto", "cpu", "gpu"}, optional
            Device instead of that of the dict.
        overrides : sequence of str
            Changes of single fields, as ``--set`` on the command line: ``["seed=8"]``.

        Raises
        ------
        ConfigError
            If the settings have errors; ``problems`` has one line per error, with the path of the value.

        Examples
        --------
        >>> settings = {"source": {"generate": "churn", "rows": 1000, "target": "Churn"}, "models": ["xgboost"]}
        >>> import gpupipe as gp
        >>> gp.Pipeline.from_dict(settings, overrides=["source.rows=500"])
        Pipeline('pipeline': churn; target 'Churn'; 1 op; xgboost)
        """
        if not isinstance(settings, Mapping):
            fix = "use gp.Pipeline for a frame or a path, gp.Pipeline.from_yaml for a configuration file"
            what = f"expected a dict of sections; got {describe_python_value(settings)}"
            raise ConfigError(what, where="settings", fix=fix)
        with python_errors():
            return cls(parse_config(settings, with_device(overrides, device)))

    def run(
        self,
        output: str | os.PathLike[str] | None = None,
        quiet: bool | None = None,
        *,
        data: Any = None,
        tables: Mapping[str, Any] | None = None,
        resume: bool = False,
        n_processes: int = 1,
    ) -> Run:
        """Train and evaluate the models, and write a run directory.

        Parameters
        ----------
        output : str or Path, optional
            The run directory to write. Default: a new one in the ``output`` folder of the configuration (``runs/``).
        quiet : bool, optional
            Show no progress, and issue warnings. Default: false in interactive sessions (notebooks, Python's prompt).
        data : frame, dict of sequences, str, Path or list of paths, optional
            Rows to train on instead of the configuration's source. All other settings apply to them.
        tables : dict of str to the same, optional
            Further tables instead of the configuration's, by name.
        resume : bool
            Resume an interrupted run with the same `output` from its checkpoints.
        n_processes : int
            Number of processes that train each neural network.

        Returns
        -------
        Run
            Metrics, importances, predictions, model and report.

        Raises
        ------
        GpupipeError
            A subclass for each reason, see `gpupipe.errors`. No run directory is written, unless it is a QualityError.

        Warns
        -----
        RunWarning
            About dropped rows and columns, texts read as other values, settings without effect; see `Run.notes`.

        Examples
        --------
        >>> import gpupipe as gp
        >>> from tempfile import TemporaryDirectory
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": range(100), "left": [0] * 50 + [1] * 50})
        >>> settings = {"evaluate": {"metrics": ["roc_auc"]}, "report": {"enabled": False}}
        >>> pipeline = gp.Pipeline(frame, target="left", models=["gaussian_nb"], **settings)
        >>> with TemporaryDirectory() as folder:
        ...     run = pipeline.run(f"{folder}/run")
        >>> run.metrics
        {'roc_auc': 1.0}
        """
        if output is not None:
            require_place("output", output)
        require_count("n_processes", n_processes)
        config = with_client(with_data(self.config, data, tables))
        is_quiet = not is_interactive() if quiet is None else quiet
        with python_errors(config), Console(quiet=is_quiet) as console:
            where = None if output is None else Path(output)
            warn = () if not is_quiet else (WarningListener(config),)  # the display shows warnings itself
            done = run_pipeline(config, where, [console, *warn], resume=resume, n_processes=n_processes)
            console.finished(leaderboard_rows(done.candidates), done.document, done.shown_path)
        return done.require_limits()

    def plan(self, assume_gpu: int | str | None = None) -> RunPlan:
        """Predict the stages of a run, their devices and memory, from file footers, sizes and a sample of the rows.

        Parameters
        ----------
        assume_gpu : int or str, optional
            Plan for a GPU with this much memory: bytes, or text such as ``"16GiB"``. No GPU is needed.

        Returns
        -------
        RunPlan
            If the run does not fit, its ``error`` has the reason and the changes that help; otherwise None.

        Raises
        ------
        GpupipeError
            A subclass for each reason, see `gpupipe.errors`.

        Examples
        --------
        >>> import gpupipe as gp
        >>> source = {"generate": "churn", "rows": 1000}
        >>> plan = gp.Pipeline(source, target="Churn", models=["gaussian_nb"]).plan()
        >>> print(plan.n_rows, plan.error)
        1000 None
        >>> [stage.name for stage in plan.stages][:4]
        ['read', 'split', 'features', 'train gaussian_nb']
        """
        with python_errors(self.config):
            from gpupipe.plan.run_plan import make_plan

            return make_plan(self.config, None if assume_gpu is None else read_size("assume_gpu", assume_gpu))

    def _repr_html_(self) -> str:
        """Return HTML with the settings that differ from their defaults; colours are those of the page."""
        name, settings = self.config.name, summary_yaml(self.config)
        return f"<div><b>{html.escape(name)}</b><pre>{html.escape(settings, quote=False)}</pre></div>"

    def __repr__(self) -> str:
        return describe_pipeline(self.config)


def run(path: str | os.PathLike[str], device: Device | None = None, overrides: Sequence[str] = ()) -> Run:
    """Run a YAML configuration file: short for ``Pipeline.from_yaml(path, device, overrides).run()``.

    Parameters
    ----------
    path : str or Path
    device : {"auto", "cpu", "gpu"}, optional
        Device instead of that of the file.
    overrides : sequence of str
        Changes of single fields, as ``--set`` on the command line: ``["seed=8", "output=/tmp/runs"]``.

    Returns
    -------
    Run
        Metrics, importances, predictions, model and report.

    Raises
    ------
    GpupipeError
        A subclass for each reason, see `gpupipe.errors`. No run directory is written.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "churn.yaml")
    ...     _ = path.write_text("source: {generate: churn, rows: 500, target: Churn}\\nmodels: [gaussian_nb]\\n")
    ...     run = gp.run(path, overrides=[f"output={folder}", "report.enabled=false"])
    >>> run.leaderboard["model"].tolist()
    ['gaussian_nb']
    """
    return Pipeline.from_yaml(path, device, overrides).run()


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
