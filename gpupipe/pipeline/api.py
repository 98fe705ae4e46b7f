"""Python interface: the objects behind the command line."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpupipe.backends import Device, choose
from gpupipe.config import Config, load_config, parse_config
from gpupipe.config.error_text import describe_python_value
from gpupipe.config.resolved_yaml import summary_yaml
from gpupipe.errors import ConfigError
from gpupipe.pipeline.arguments import (
    in_python,
    python_errors,
    read_size,
    require_choice,
    require_count,
    require_place,
    source_section,
    with_data,
    with_device,
)
from gpupipe.pipeline.display.console import Console, is_interactive
from gpupipe.pipeline.leaderboard import leaderboard_rows
from gpupipe.pipeline.preparation import open_job
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.pipeline.tensors import TensorView, make_tensors
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.training import fit_view, select_rows
from gpupipe.tasks import View
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.libraries import LIBRARIES
from gpupipe.typing import Array
from gpupipe_kernels.engines import EngineSetting

if TYPE_CHECKING:
    from gpupipe.pipeline.plan.run_plan import RunPlan

Section = Mapping[str, Any]


class Pipeline:
    """A table, what is to be learned from it, and how: the configuration of a run.

    The arguments are the sections of a configuration file, with the same names, short forms and defaults; the README
    and ``gpupipe schema`` describe them. What is left out is chosen: features that suit each column, models that suit
    the task. All mistakes are reported at once.

    Parameters
    ----------
    source : frame, str, Path, list of paths, dict or Config
        The table: a frame of pandas, polars, pyarrow, DuckDB, cuDF, or anything with ``__arrow_c_stream__``, whose rows
        are taken as they are now; a file, folder, glob or URL; or a ``source`` section, for options of the readers:
        ``{"path": "customers.csv", "csv": {"delimiter": ";"}}``. A `Config` is a whole configuration, and takes no
        further argument.
    target : str, optional
        The column to predict; none for clustering and embeddings.
    positive : label or list of labels, optional
        What counts as the positive class.
    columns, drop : str or list of str, optional
        Columns to keep, or to leave out: names and globs, and with `drop` selectors such as ``@text``.
    where : str, optional
        Which rows to keep: ``"2.5 <= fare <= 100 and miles is not None"``.
    schema : dict, optional
        Column to kind or dtype: ``{"zip": "categorical"}``; what is not listed is inferred.
    tables : dict of str to dict, optional
        Further tables by name: ``{"orders": {"path": frame_or_path, "on": "customer", "cardinality": "one_to_many"}}``.
    data : dict, optional
        Rules of columns, enforced when a model is trained and when it predicts: ``{"age": {"range": [0, 120]}}``.
    split, evaluate, limits, report, gpu, cluster : dict, optional
        Sections of that name.
    features : list, optional
        Ops, each ``{name: settings}``; a kernel may be the decorated function itself.
    models : list or str, optional
        Names, or ``{name: parameters}``, with scikit-learn's parameters.
    name : str, optional
        The beginning of the run directory's name.
    seed : int, optional
        Seed of splits, folds and models.
    device : {"auto", "cpu", "gpu"}, optional
    fallback : {"forbid", "allow"}, optional
        Whether steps that the GPU cannot do may run on the CPU.
    engine : {"auto", "numpy", "numba"}, optional
        What learns statistics and computes over histories and texts on the CPU.
    output : str or Path, optional
        The folder in which run directories are made.

    Raises
    ------
    ConfigError
        If an argument has a wrong type or value; ``problems`` has one line for each, with its path.
    DataError, SchemaError
        If a frame cannot be converted to Arrow: a column mixes types, or two columns share a name.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = {"age": [31, 45, 27, 52], "plan": ["a", "b", "a", None], "left": [0, 1, 0, 1]}
    >>> frame = pd.concat([pd.DataFrame(rows)] * 25)
    >>> pipe = Pipeline(frame, target="left", models=["logistic_regression"])
    >>> pipe
    Pipeline('pipeline': pandas.DataFrame, 100 rows x 3 columns; target 'left'; 1 op; logistic_regression)
    >>> X, y = pipe.features()
    >>> X.shape, X.dtype.name
    ((100, 4), 'float32')
    """

    def __init__(
        self,
        source: Any = None,
        *,
        target: str | None = None,
        positive: Any = None,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        where: str | None = None,
        schema: Section | None = None,
        tables: Mapping[str, Section] | None = None,
        data: Section | None = None,
        split: Section | None = None,
        features: Sequence[Any] | None = None,
        models: Sequence[Any] | Section | str | None = None,
        evaluate: Section | None = None,
        limits: Section | None = None,
        report: Section | None = None,
        gpu: Section | None = None,
        cluster: Section | None = None,
        name: str | None = None,
        seed: int | None = None,
        device: Device | None = None,
        fallback: Literal["forbid", "allow"] | None = None,
        engine: EngineSetting | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> None:
        about_rows = {
            "target": target, "positive": positive, "columns": columns, "drop": drop, "where": where, "schema": schema,
        }  # fmt: skip
        sections = {
            "name": name, "seed": seed, "device": device, "fallback": fallback, "engine": engine, "gpu": gpu,
            "cluster": cluster, "tables": tables, "data": data, "split": split, "features": features, "models": models,
            "evaluate": evaluate, "limits": limits, "report": report,
            "output": os.fspath(output) if isinstance(output, os.PathLike) else output,
        }  # fmt: skip
        about_rows, sections = _given(about_rows), _given(sections)
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
        """Return the pipeline of a configuration file.

        Parameters
        ----------
        path : str or Path
        device : {"auto", "cpu", "gpu"}, optional
            Replaces what the file says.
        overrides : sequence of str
            ``"a.b=value"``, as ``--set`` on the command line.

        Raises
        ------
        ConfigError
            With all mistakes, each with its line and column.
        """
        with python_errors():
            return cls(load_config(path, with_device(overrides, device)))

    @classmethod
    def from_dict(
        cls, settings: Mapping[str, Any], device: Device | None = None, overrides: Sequence[str] = ()
    ) -> Pipeline:
        """Return the pipeline of a configuration in a dict, whose keys are the sections of a configuration file.

        Parameters
        ----------
        settings : mapping
            As `yaml.safe_load` returns it; frames may be given as ``path`` of the source and of further tables.
        device : {"auto", "cpu", "gpu"}, optional
            Replaces what the dict says.
        overrides : sequence of str
            ``"a.b=value"``, as ``--set`` on the command line.

        Raises
        ------
        ConfigError
            With all mistakes, each with the path of its value.

        Examples
        --------
        >>> settings = {"source": {"generate": "churn", "rows": 1000, "target": "Churn"}, "models": ["xgboost"]}
        >>> Pipeline.from_dict(settings, overrides=["source.rows=500"])
        Pipeline('pipeline': churn; target 'Churn'; 1 op; xgboost)
        """
        if not isinstance(settings, Mapping):
            fix = "a frame or a path goes to gp.Pipeline, a configuration file to gp.Pipeline.from_yaml"
            raise ConfigError(
                f"expected a dict of sections; got {describe_python_value(settings)}", where="settings", fix=fix
            )
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
            The run directory itself; default: a new one in the folder that the configuration names (``runs/``).
        quiet : bool, optional
            Show no progress. By default it is shown in interactive sessions: notebooks and Python's prompt.
        data : frame, dict of columns, str, Path or list of paths, optional
            Rows to learn from instead of the source of the configuration; all other settings apply to them.
        tables : dict of str to the same, optional
            Further tables instead of those of the configuration, by their names.
        resume : bool
            Resume an interrupted run with the same `output` from its checkpoints.
        n_processes : int
            How many processes share the training of a network.

        Returns
        -------
        Run
            Metrics, importances, predictions, the model and the report.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`; no run directory is left.
        """
        if output is not None:
            require_place("output", output)
        require_count("n_processes", n_processes)
        config = with_data(self.config, data, tables)
        with python_errors(config), Console(quiet=not is_interactive() if quiet is None else quiet) as console:
            where = None if output is None else Path(output)
            done = run_pipeline(config, where, [console], resume=resume, n_processes=n_processes)
            console.finished(leaderboard_rows(done.leaderboard), done.document, done.shown_path)
        return done

    def plan(self, assume_gpu: int | str | None = None) -> RunPlan:
        """Return what a run would do and need, from footers, sizes and some rows.

        Parameters
        ----------
        assume_gpu : int or str, optional
            Plan for a GPU with that much memory: bytes, or ``"16GiB"``.

        Returns
        -------
        RunPlan
            Its ``error`` says why the run would not fit, and what to change; None if it fits.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        with python_errors(self.config):
            from gpupipe.pipeline.plan.run_plan import make_plan

            return make_plan(self.config, None if assume_gpu is None else read_size("assume_gpu", assume_gpu))

    def features(
        self, data: Any = None, view: View = "dense", *, tables: Mapping[str, Any] | None = None
    ) -> tuple[Array, Array | None]:
        """Fit the features, and return the matrix of all rows and their target.

        Parameters
        ----------
        data : frame, dict of columns, str, Path or list of paths, optional
            Rows instead of the source of the configuration; all other settings apply to them.
        view : {"dense", "codes", "embedding"}
            For linear models (scaled, one-hot, no nulls), for trees (integer codes, nulls), or for networks that embed
            categories (scaled numbers, integer codes).
        tables : dict of str to the same, optional
            Further tables instead of those of the configuration, by their names.

        Returns
        -------
        X : array of float32, shape (n_rows, n_features), column-major
            Target statistics are cross-fitted: no row sees its own target. Rows without a target are dropped. On a GPU
            it is a CuPy array.
        y : array of float64, shape (n_rows,), or None
            A NumPy array.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        import numpy as np

        require_choice("view", view, get_args(View))
        config = with_data(self.config, data, tables)
        with python_errors(config):
            backend = choose(config.device, config.device_options)
            job = open_job(config, backend, Timeline())
            rows = select_rows(job.table, job.y, np.ones(job.table.n_rows, bool), job.goal, config, backend)
            fitted, X = fit_view(rows, view, config.features, backend)
            for text in fitted.warnings:
                warnings.warn(in_python(text, config), stacklevel=2)
            return X, job.y

    def tensors(
        self,
        library: str | None = None,
        view: TensorView = "dense",
        copy: bool = False,
        *,
        data: Any = None,
        tables: Mapping[str, Any] | None = None,
    ) -> tuple[TensorBatch[Array], TensorBatch[Array]]:
        """Return the training and the test rows of the configuration's split as tensors, for your own training loop.

        Features are fitted to the training rows alone; of a cross-validation the first fold is taken.

        Parameters
        ----------
        library : {"torch", "jax", "tensorflow"}, optional
            The library of the tensors; default: NumPy arrays, on a GPU CuPy arrays. They are handed over without a
            copy. TensorFlow takes row-major memory only, and the matrix is column-major: it needs `copy`.
        view : {"dense", "embedding"}
            All columns as scaled numbers without nulls; or the numbers, and codes of the categories to embed.
        copy : bool
            Give the library its own memory: one copy of each array.
        data : frame, dict of columns, str, Path or list of paths, optional
            Rows instead of the source of the configuration; all other settings apply to them.
        tables : dict of str to the same, optional
            Further tables instead of those of the configuration, by their names.

        Returns
        -------
        train, test : TensorBatch
            ``features``, ``ids``, ``target``, and in ``metadata`` names, vocabularies and labels.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        require_choice("view", view, get_args(TensorView))
        if library is not None:
            require_choice("library", library, tuple(LIBRARIES))
        config = with_data(self.config, data, tables)
        with python_errors(config):
            # JAX uses 32-bit integers by default.
            train, test = make_tensors(config, view, "int32" if library == "jax" else "int64")
            return (train, test) if library is None else (train.to(library, copy), test.to(library, copy))

    def _repr_html_(self) -> str:
        """Show the settings that differ from their defaults; colours are those of the page."""
        name, settings = self.config.name, summary_yaml(self.config)
        return f"<div><b>{html.escape(name)}</b><pre>{html.escape(settings, quote=False)}</pre></div>"

    def __repr__(self) -> str:
        config = self.config
        n_ops = len(config.features)
        parts = [
            config.source.label,
            *([f"target {config.source.target!r}"] if config.source.target else []),
            *([f"{len(config.tables)} further table{'s' * (len(config.tables) != 1)}"] if config.tables else []),
            f"{n_ops} op{'s' * (n_ops != 1)}",
            ", ".join(entry.label for entry in config.models) or "models by task",
        ]
        return config.origin.redactor.hide(f"Pipeline({config.name!r}: {'; '.join(parts)})")


def run(path: str | os.PathLike[str], device: Device | None = None, overrides: Sequence[str] = ()) -> Run:
    """Run a configuration file: ``Pipeline.from_yaml(path, device, overrides).run()``."""
    return Pipeline.from_yaml(path, device, overrides).run()


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
