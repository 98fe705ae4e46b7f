"""Tables to a trained, portable model: one YAML for the GPU, the laptop and the cluster.

>>> import gpupipe as gp
>>> run = gp.run("configs/churn.yaml")  # doctest: +SKIP
>>> run.metrics["roc_auc"]  # doctest: +SKIP

Names are imported when they are first used: ``import gpupipe`` is quick, and asks for no GPU library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.config import Config, load_config
    from gpupipe.features.transformer import FeatureProgram
    from gpupipe.pipeline.api import Pipeline, run
    from gpupipe.pipeline.model import Model, load_model
    from gpupipe.pipeline.result import Run
    from gpupipe_kernels.user.kernel import kernel

__version__ = "0.1.0"
__all__ = [
    "Config",
    "FeatureProgram",
    "Model",
    "Pipeline",
    "Run",
    "__version__",
    "kernel",
    "load_config",
    "load_model",
    "run",
]

_HOMES = {
    "Config": "gpupipe.config",
    "FeatureProgram": "gpupipe.features.transformer",
    "Model": "gpupipe.pipeline.model",
    "Pipeline": "gpupipe.pipeline.api",
    "Run": "gpupipe.pipeline.result",
    "kernel": "gpupipe_kernels.user.kernel",
    "load_config": "gpupipe.config",
    "load_model": "gpupipe.pipeline.model",
    "run": "gpupipe.pipeline.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
