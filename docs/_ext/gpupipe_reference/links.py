"""Targets of links: the repository, and labels of code in prose."""

from __future__ import annotations

from gpupipe.backends.cpu.estimators import ESTIMATORS
from gpupipe.features import OPS
from gpupipe.models import MODELS

GITHUB = "https://github.com/gpupipe/gpupipe"
AMBIGUOUS = {"auto", "cross", "drop", "encode", "estimator", "kernel", "lag", "difference"}
"""Names of ops and models that prose uses for other things too."""


def code_links() -> dict[str, str]:
    """Return code that names an op, a model or a section, and its label."""
    from gpupipe_reference.configuration import field_labels
    from gpupipe_reference.models import model_label
    from gpupipe_reference.ops import op_label

    ops = {name: op_label(name) for name in OPS.names() if name not in AMBIGUOUS}
    models = {name: model_label(name) for name in MODELS.names() if name not in AMBIGUOUS}
    classes = {model.__name__: model_label(name) for name, model in MODELS.items()}
    return ops | models | classes | field_labels()


def documentation_url(estimator: str) -> str:
    """Return the address of the library's own page of an estimator; empty for other libraries."""
    module = ESTIMATORS.get(estimator, "")
    if module.startswith("sklearn"):
        return f"https://scikit-learn.org/stable/modules/generated/{module}.{estimator}.html"
    if module == "xgboost":
        return f"https://xgboost.readthedocs.io/en/stable/python/python_api.html#xgboost.{estimator}"
    return ""
