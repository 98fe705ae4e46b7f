"""Tables to a trained, portable model: one YAML for the GPU, the laptop and the cluster.

Train on a frame in memory, or run a YAML configuration with ``gp.run("configs/churn.yaml")``:

>>> import gpupipe as gp
>>> import pandas as pd
>>> frame = pd.DataFrame({"age": range(100), "left": [0] * 50 + [1] * 50})
>>> gp.Pipeline(frame, target="left", models=["logistic_regression"])
Pipeline('pipeline': pandas.DataFrame, 100 rows x 2 columns; target 'left'; 1 op; logistic_regression)

Its method ``run`` trains, evaluates and exports the models, and returns a `Run`.

Names are imported on first use, so ``import gpupipe`` is quick and loads no GPU library.
"""

from __future__ import annotations

import atexit
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpupipe.arrow_threads import await_arrow_threads
from gpupipe.version import __version__ as __version__

atexit.register(await_arrow_threads)  # first, so that it runs after the exit handlers of libraries

_HOMES = {
    "ArtifactError": "gpupipe.errors",
    "Batches": "gpupipe.tensors.batches",
    "ClusterError": "gpupipe.errors",
    "Config": "gpupipe.config",
    "ConfigError": "gpupipe.errors",
    "DataError": "gpupipe.errors",
    "DeviceError": "gpupipe.errors",
    "DriftReport": "gpupipe.inference.drift.report",
    "EncodingError": "gpupipe.errors",
    "Evaluation": "gpupipe.inference.evaluation.evaluation",
    "Explanation": "gpupipe.inference.explanation.explanation",
    "FeatureProgram": "gpupipe.pipeline.api.transformer",
    "FieldCountError": "gpupipe.errors",
    "GpupipeError": "gpupipe.errors",
    "GroupTimeSplit": "gpupipe.splits.splitter",
    "LimitError": "gpupipe.errors",
    "Model": "gpupipe.inference.model",
    "ModelDiff": "gpupipe.inference.diff.model_diff",
    "ModelUpdate": "gpupipe.pipeline.update.update",
    "Pipeline": "gpupipe.pipeline.api.pipeline",
    "PredictionWarning": "gpupipe.user_warnings",
    "QualityError": "gpupipe.errors",
    "QuoteError": "gpupipe.errors",
    "Reproduction": "gpupipe.pipeline.provenance.reproduction",
    "RowError": "gpupipe.errors",
    "RowSizeError": "gpupipe.errors",
    "Run": "gpupipe.pipeline.result",
    "RunComparison": "gpupipe.pipeline.comparison.comparison",
    "RunWarning": "gpupipe.user_warnings",
    "SchemaError": "gpupipe.errors",
    "Scorer": "gpupipe.inference.scorer.scorer",
    "StoppedError": "gpupipe.errors",
    "TensorBatch": "gpupipe.tensors.batch",
    "UntrustedModel": "gpupipe.inference.untrusted.model",
    "compare_runs": "gpupipe.pipeline.comparison.comparison",
    "diff": "gpupipe.inference.diff.model_diff",
    "from_dlpack": "gpupipe.tensors.exchange",
    "kernel": "gpupipe_kernels.user.kernel",
    "list_runs": "gpupipe.pipeline.comparison.run_list",
    "load_config": "gpupipe.config",
    "load_model": "gpupipe.inference.model",
    "load_run": "gpupipe.pipeline.result",
    "load_scorer": "gpupipe.inference.scorer.load",
    "predict_into_table": "gpupipe.inference.scoring.merged_scores",
    "reproduce_run": "gpupipe.pipeline.provenance.reproduction",
    "run": "gpupipe.pipeline.api.pipeline",
    "to_jax": "gpupipe.tensors.exchange",
    "to_tensorflow": "gpupipe.tensors.exchange",
    "to_torch": "gpupipe.tensors.exchange",
    "update_model": "gpupipe.pipeline.update.update",
    "write_dossier": "gpupipe.pipeline.dossier.dossier",
}

if TYPE_CHECKING:  # the same names again: type checkers do not run `__getattr__`
    from gpupipe.config import Config as Config
    from gpupipe.config import load_config as load_config
    from gpupipe.errors import ArtifactError as ArtifactError
    from gpupipe.errors import ClusterError as ClusterError
    from gpupipe.errors import ConfigError as ConfigError
    from gpupipe.errors import DataError as DataError
    from gpupipe.errors import DeviceError as DeviceError
    from gpupipe.errors import EncodingError as EncodingError
    from gpupipe.errors import FieldCountError as FieldCountError
    from gpupipe.errors import GpupipeError as GpupipeError
    from gpupipe.errors import LimitError as LimitError
    from gpupipe.errors import QualityError as QualityError
    from gpupipe.errors import QuoteError as QuoteError
    from gpupipe.errors import RowError as RowError
    from gpupipe.errors import RowSizeError as RowSizeError
    from gpupipe.errors import SchemaError as SchemaError
    from gpupipe.errors import StoppedError as StoppedError
    from gpupipe.inference.diff.model_diff import ModelDiff as ModelDiff
    from gpupipe.inference.diff.model_diff import diff as diff
    from gpupipe.inference.drift.report import DriftReport as DriftReport
    from gpupipe.inference.evaluation.evaluation import Evaluation as Evaluation
    from gpupipe.inference.explanation.explanation import Explanation as Explanation
    from gpupipe.inference.model import Model as Model
    from gpupipe.inference.model import load_model as load_model
    from gpupipe.inference.scorer.load import load_scorer as load_scorer
    from gpupipe.inference.scorer.scorer import Scorer as Scorer
    from gpupipe.inference.scoring.merged_scores import predict_into_table as predict_into_table
    from gpupipe.inference.untrusted.model import UntrustedModel as UntrustedModel
    from gpupipe.pipeline.api.pipeline import Pipeline as Pipeline
    from gpupipe.pipeline.api.pipeline import run as run
    from gpupipe.pipeline.api.transformer import FeatureProgram as FeatureProgram
    from gpupipe.pipeline.comparison.comparison import RunComparison as RunComparison
    from gpupipe.pipeline.comparison.comparison import compare_runs as compare_runs
    from gpupipe.pipeline.comparison.run_list import list_runs as list_runs
    from gpupipe.pipeline.dossier.dossier import write_dossier as write_dossier
    from gpupipe.pipeline.provenance.reproduction import Reproduction as Reproduction
    from gpupipe.pipeline.provenance.reproduction import reproduce_run as reproduce_run
    from gpupipe.pipeline.result import Run as Run
    from gpupipe.pipeline.result import load_run as load_run
    from gpupipe.pipeline.update.update import ModelUpdate as ModelUpdate
    from gpupipe.pipeline.update.update import update_model as update_model
    from gpupipe.splits.splitter import GroupTimeSplit as GroupTimeSplit
    from gpupipe.tensors.batch import TensorBatch as TensorBatch
    from gpupipe.tensors.batches import Batches as Batches
    from gpupipe.tensors.exchange import from_dlpack as from_dlpack
    from gpupipe.tensors.exchange import to_jax as to_jax
    from gpupipe.tensors.exchange import to_tensorflow as to_tensorflow
    from gpupipe.tensors.exchange import to_torch as to_torch
    from gpupipe.user_warnings import PredictionWarning as PredictionWarning
    from gpupipe.user_warnings import RunWarning as RunWarning
    from gpupipe_kernels.user.kernel import kernel as kernel
else:  # type checkers understand only a literal `__all__`
    __all__ = [*_HOMES, "__version__"]

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted(__all__)
