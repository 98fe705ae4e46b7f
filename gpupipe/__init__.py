"""Tables to a trained, portable model: one YAML for the GPU, the laptop and the cluster.

>>> import gpupipe as gp
>>> run = gp.Pipeline(frame, target="Churn").run()  # doctest: +SKIP
>>> run = gp.run("configs/churn.yaml")  # doctest: +SKIP
>>> run.metrics["roc_auc"]  # doctest: +SKIP

Names are imported when they are first used: ``import gpupipe`` is quick, and asks for no GPU library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.config import Config, load_config
    from gpupipe.pipeline.api import Pipeline, run
    from gpupipe.pipeline.model.model import Model, load_model
    from gpupipe.pipeline.result import Run, load_run
    from gpupipe.pipeline.transformer import FeatureProgram
    from gpupipe.pipeline.untrusted.model import UntrustedModel
    from gpupipe.tensors.batch import TensorBatch
    from gpupipe.tensors.batches import Batches
    from gpupipe.tensors.exchange import from_dlpack, to_jax, to_tensorflow, to_torch
    from gpupipe_kernels.user.kernel import kernel

__version__ = "0.1.0"
__all__ = [
    "Batches",
    "Config",
    "FeatureProgram",
    "Model",
    "Pipeline",
    "Run",
    "TensorBatch",
    "UntrustedModel",
    "__version__",
    "from_dlpack",
    "kernel",
    "load_config",
    "load_model",
    "load_run",
    "run",
    "to_jax",
    "to_tensorflow",
    "to_torch",
]

_HOMES = {
    "Batches": "gpupipe.tensors.batches",
    "Config": "gpupipe.config",
    "FeatureProgram": "gpupipe.pipeline.transformer",
    "Model": "gpupipe.pipeline.model.model",
    "Pipeline": "gpupipe.pipeline.api",
    "Run": "gpupipe.pipeline.result",
    "TensorBatch": "gpupipe.tensors.batch",
    "UntrustedModel": "gpupipe.pipeline.untrusted.model",
    "from_dlpack": "gpupipe.tensors.exchange",
    "kernel": "gpupipe_kernels.user.kernel",
    "load_config": "gpupipe.config",
    "load_model": "gpupipe.pipeline.model.model",
    "load_run": "gpupipe.pipeline.result",
    "run": "gpupipe.pipeline.api",
    "to_jax": "gpupipe.tensors.exchange",
    "to_tensorflow": "gpupipe.tensors.exchange",
    "to_torch": "gpupipe.tensors.exchange",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
