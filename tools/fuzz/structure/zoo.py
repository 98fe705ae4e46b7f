"""A zoo of trained models of every exportable kind, trained in seconds on a table from scikit-learn."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gpupipe
from gpupipe.artifact import manifest
from gpupipe.artifact.manifest import CARD
from gpupipe.config import parse_config
from gpupipe.model_parts.goal import Goal
from gpupipe.models import MODELS, FitContext, FittedModel, fit
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.pipeline.run import run_pipeline
from tools.fuzz.damage.models import OWN, vouched_for
from tools.fuzz.structure.recipes import (
    ENSEMBLES,
    RESULTS,
    RUNS,
    TARGETS,
    TIME,
    TXT,
    UBJ,
    ZooModel,
    boosted_trees,
    networks,
    npz_models,
    skops_models,
    wine,
)

N_SCORED = 24
_SMALLEST = {"mlp": {"epochs": 1, "embedding_size": 2, "width": 2, "depth": 1}}
_EXCHANGED = ("model/parity", "model/estimator", "model/architecture")
Files = dict[str, bytes]


class Zoo:
    """Trained models, each as the files of its directory; trained on first request.

    Parameters
    ----------
    folder : Path
        Folder for the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shells: dict[tuple[str, str], Path] = {}

    @cached_property
    def table(self) -> pa.Table:
        """Training rows."""
        return wine()

    @property
    def scored(self) -> bytes:
        """A Parquet file with the rows to predict."""
        sink = pa.BufferOutputStream()
        pq.write_table(self.table.slice(50, N_SCORED), sink)
        return bytes(sink.getvalue())

    def estimators(self, kind: str) -> Iterator[tuple[str, Files]]:
        """Yield name and files of each model whose estimator is stored as ubj, skops, npz, txt, safetensors or onnx."""
        makers: dict[str, Callable[[], Mapping[str, ZooModel]]] = {
            "ubj": lambda: UBJ, "skops": skops_models, "npz": npz_models, "txt": lambda: TXT,
            "safetensors": partial(networks, onnx=False), "onnx": partial(networks, onnx=True),
        }  # fmt: skip
        for name, made in makers[kind]().items():
            yield name, self._files(made, with_onnx=kind == "onnx")

    def ensembles(self) -> Iterator[tuple[str, Files]]:
        """Yield name and files of models of models: one per target, and ensembles.

        Members of the ensembles have two models each, and read different columns.
        """
        yield "multioutput", self._files(boosted_trees("multioutput"), with_onnx=False)
        for task, made in ENSEMBLES.items():
            shell = self._shell(task, "dense")
            model = gpupipe.load_model(shell, "cpu")
            X, y = model.transform(self.table), self._target(model.goal)
            names = model.feature_names
            n_classes = model.goal.n_classes
            members = []
            for i, each in enumerate(made):
                columns = tuple(range(i, len(names)))
                own = replace(_context(model, each), feature_names=names[i:])
                halves = [fit(MODELS.get(each.name)(**each.params), X[k::2, i:], y[k::2], own) for k in range(2)]
                members.append(EnsembleMember(f"{each.name} {i}", each.name, 1 / len(made), columns, tuple(halves)))
            ensemble = FittedEnsemble(tuple(members), task, names, n_classes, tuple(range(n_classes)))
            yield task, self._exported(shell, ensemble)

    def run(self, name: str, settings: Mapping[str, Any], *, with_time: bool = False) -> Files:
        """Return the files of the model of a complete run; `target` has no names for an unsupervised one."""
        targets = settings.get("target", TARGETS["binary"])
        unread = [*([] if with_time else [TIME]), *(other for other in RESULTS if other not in targets)]
        source = {"path": str(self._source()), "drop": unread} | ({"target": list(targets)} if targets else {})
        own = {key: value for key, value in settings.items() if key != "target"}
        config = {"source": source, "device": "cpu", "report": {"enabled": False}, **own}
        return files_of(run_pipeline(parse_config(config), self.folder / name).path / "model")

    def runs(self) -> Iterator[tuple[str, Files]]:
        """Yield name and files of models of complete runs, which together have every part that a model can have."""
        for name, settings in RUNS.items():
            yield name, self.run(name, settings, with_time=True)

    def _source(self) -> Path:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "wine.parquet"
        if not path.exists():
            pq.write_table(self.table, path)
        return path

    def _shell(self, task: str, view: str) -> Path:
        """Return a model of the task with the columns of the view, as a container for estimators."""
        if (task, view) not in self._shells:
            seen_by: dict[str, Any] = {"codes": "hist_gradient_boosting", "dense": "knn", "embedding": _SMALLEST}
            model = {"clustering": "kmeans", "embedding": "pca"}.get(task, seen_by[view])
            settings = {"models": [model], "target": TARGETS.get(task, ())}
            with _without_onnx(view == "embedding" and task in TARGETS):
                files = self.run(f"{task}-{view}", settings)
            folder = self.folder / f"{task}-{view}-shell"
            folder.mkdir()
            for file, content in files.items():
                (folder / Path(file).name).write_bytes(content)
            self._shells[task, view] = folder
        return self._shells[task, view]

    def _files(self, made: ZooModel, with_onnx: bool) -> Files:
        shell = self._shell(made.task, made.view)
        model = gpupipe.load_model(shell, "cpu")
        X, y = model.transform(self.table), self._target(model.goal)
        names, n_classes = model.feature_names, model.goal.n_classes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # networks that have not converged
            if made.estimator is not None:
                fitted: Any = FittedSklearn(
                    made.estimator().fit(X.astype("f4", order="C"), y),
                    made.task,
                    names,
                    n_classes,
                    tuple(range(n_classes)),
                )
            else:
                fitted = fit(MODELS.get(made.name)(**made.params), X, y, _context(model, made))
            with _without_onnx(made.view == "embedding" and not with_onnx):
                return self._exported(shell, fitted)

    def _exported(self, shell: Path, fitted: FittedModel) -> Files:
        """Return the files of a model directory with another estimator."""
        with TemporaryDirectory(dir=self.folder) as folder:
            description = fitted.save(folder)
            estimator = files_of(Path(folder))
        kept = {name: content for name, content in files_of(shell).items() if not name.startswith(_EXCHANGED)}
        values = json.loads(kept[OWN])
        values["estimator"] = description
        values["files"] = {name.partition("/")[2]: {} for name in [*kept, *estimator] if name != OWN}
        return dict(vouched_for({**kept, **estimator, OWN: manifest.render(values)}))

    def _target(self, goal: Goal) -> Any:
        """Return the codes of the classes, or the numbers; of several targets in columns; None without a target."""
        columns = []
        for own in goal.each if goal.names else ():
            values = self.table[own.target].to_pylist()
            columns.append([own.labels.index(value) for value in values] if own.labels else values)
        if not columns:
            return None
        return np.array(columns if goal.targets else columns[0], np.float64).T


def _context(model: gpupipe.Model, made: ZooModel) -> FitContext:
    """Return the context to fit an estimator for the columns of a model."""
    names, n_classes = model.feature_names, model.goal.n_classes
    targets = model.goal.specs if made.task == "multioutput" else ()
    return FitContext(model.backend, made.task, 7, n_classes, model.features.categorical, names, targets=targets)


def _without_onnx(asked: bool) -> AbstractContextManager[Any]:
    """Disable the ONNX export of networks, which takes longer than their training."""
    return (
        patch("gpupipe.models.neural.files.onnx.find_obstacle", return_value="not requested")
        if asked
        else nullcontext()
    )


def files_of(folder: Path) -> Files:
    """Return the files of a model directory under their paths in a case, without the model card, which is not read."""
    return {f"model/{path.name}": path.read_bytes() for path in sorted(folder.iterdir()) if path.name != CARD}
