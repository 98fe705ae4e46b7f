"""The Python way in: the same objects as the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gpupipe.backends import choose
from gpupipe.config import Config, load_config
from gpupipe.config.gpu import parse_size
from gpupipe.features.builder import View
from gpupipe.pipeline.console import Console
from gpupipe.pipeline.model_rows import as_arrow
from gpupipe.pipeline.plan.make import Plan, make_plan
from gpupipe.pipeline.preparation import derive_columns, prepare
from gpupipe.pipeline.reading import table_of
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.pipeline.target import TargetColumn, find_goal, known_rows, target_values
from gpupipe.pipeline.tensors import TensorView, make_tensors
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.training import fit_view, select_rows
from gpupipe.tensors.batch import TensorBatch

Array = Any


class Pipeline:
    """A configuration that can be run, or used for its features alone.

    Parameters
    ----------
    config : Config
        From `gpupipe.load_config`, or `Pipeline.from_yaml`.

    Examples
    --------
    >>> pipe = Pipeline.from_yaml("configs/churn.yaml", device="auto")  # doctest: +SKIP
    >>> pipe.run().metrics["roc_auc"]  # doctest: +SKIP
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def from_yaml(
        cls, path: str | Path, device: Literal["auto", "cpu", "gpu"] | None = None, overrides: Sequence[str] = ()
    ) -> Pipeline:
        """Return the pipeline of a configuration file.

        Parameters
        ----------
        path : str or Path
        device : {"auto", "cpu", "gpu"}, optional
            In place of what the file says.
        overrides : sequence of str
            ``"a.b=value"``, as ``--set`` on the command line.

        Raises
        ------
        ConfigError
            With every mistake at once.
        """
        extra = [] if device is None else [f"device={device}"]
        return cls(load_config(path, [*overrides, *extra]))

    def run(
        self, output: str | Path | None = None, quiet: bool = True, *, resume: bool = False, n_processes: int = 1
    ) -> Run:
        """Run it and leave a run directory.

        Parameters
        ----------
        output : str or Path, optional
            The run directory itself; default: a new one below ``config.output``.
        quiet : bool
            False shows the stages on stderr as they run.
        resume : bool
            Take up what a run that was interrupted has kept of the same stages.
        n_processes : int
            How many processes share the training of a network.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        with Console(quiet=quiet) as console:
            where = None if output is None else Path(output)
            return run_pipeline(self.config, where, [console], resume=resume, n_processes=n_processes)

    def plan(self, assume_gpu: int | str | None = None) -> Plan:
        """Say what a run would do and need, from footers, sizes and some rows.

        Parameters
        ----------
        assume_gpu : int or str, optional
            Plan for a GPU with so much memory: bytes, or ``"16GiB"``.

        Returns
        -------
        Plan
            Its ``error`` says why the run would not fit, with what to change; None where it would.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        return make_plan(self.config, None if assume_gpu is None else parse_size(assume_gpu))

    def features(self, data: Any = None, view: View = "dense") -> tuple[Array, Array]:
        """Fit the features, and return the matrix of all rows and their target.

        Parameters
        ----------
        data : pandas.DataFrame or pyarrow.Table, optional
            In place of the configuration's source; further tables are read as the configuration says.
        view : {"dense", "codes"}
            As linear models like it (scaled, one-hot, no nulls), or as trees do (integer ids, nulls).

        Returns
        -------
        X : array of float32, shape (n_rows, n_features), column-major
            Target statistics are cross-fitted: no row sees its own target. Rows without a target are left out. On a GPU
            it is CuPy's.
        y : array of float64, shape (n_rows,), or None
            NumPy's.
        """
        import numpy as np

        backend = choose(self.config.device, self.config.device_options)
        source = self.config.source
        if data is None:
            job = prepare(self.config, backend, Timeline())
            table, goal, y = job.table, job.goal, job.y
        else:
            found = table_of(self.config, as_arrow(data), backend)
            target = TargetColumn.of(found.table, source.target, backend)
            goal = find_goal(target, source.positives, [e.params for e in self.config.models])
            table, rows = known_rows(derive_columns(self.config, found, backend, Timeline())[0], target, backend)
            y = target_values(target, rows, goal, source.positives)
        training = select_rows(table, y, np.ones(table.n_rows, bool), goal, self.config, backend)
        return fit_view(training, view, self.config.features, backend)[1], y

    def tensors(
        self, library: str | None = None, view: TensorView = "dense", copy: bool = False
    ) -> tuple[TensorBatch, TensorBatch]:
        """Return the training and the test rows of the configuration's split as tensors, for a loop of your own.

        Features are learned from the training rows alone; of a cross-validation the first fold is taken.

        Parameters
        ----------
        library : {"torch", "jax", "tensorflow"}, optional
            Whose tensors; default: arrays of NumPy, or CuPy's on a GPU. They are handed over without a copy.
            TensorFlow takes row-major memory alone, and the matrix is column-major: it needs `copy`.
        view : {"dense", "embedding"}
            All columns as scaled numbers without nulls; or those of the numbers, and ids of the categories to embed.
        copy : bool
            Give the library memory of its own: one copy of each array.

        Returns
        -------
        train, test : TensorBatch
            ``features``, ``ids``, ``target``, and in ``metadata`` names, vocabularies and labels.

        Raises
        ------
        GpupipeError
            See `gpupipe.errors`.
        """
        # JAX has 32 bits unless it is told otherwise.
        train, test = make_tensors(self.config, view, "int32" if library == "jax" else "int64")
        return (train, test) if library is None else (train.to(library, copy), test.to(library, copy))

    def __repr__(self) -> str:
        models = ", ".join(entry.label for entry in self.config.models) or "models by task"
        return f"Pipeline({self.config.name!r}: {len(self.config.features)} ops, {models})"


def run(path: str | Path, device: Literal["auto", "cpu", "gpu"] | None = None, overrides: Sequence[str] = ()) -> Run:
    """Run a configuration file: ``Pipeline.from_yaml(path, device, overrides).run()``."""
    return Pipeline.from_yaml(path, device, overrides).run()
