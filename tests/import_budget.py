"""Libraries that a process must not import, and the number of modules of gpupipe that it may, by kind of run."""

from __future__ import annotations

import re

# Each takes 0.1 to 3 s, and no run here needs it.
NEVER = frozenset(
    {
        "IPython", "PIL", "catboost", "dask", "distributed", "lightgbm", "matplotlib", "numba", "onnx", "onnxruntime",
        "optuna", "polars", "skops", "sqlglot", "torch",
    }
)  # fmt: skip
READING = NEVER | {"jinja2", "joblib", "pandas", "rich", "scipy", "sklearn", "xgboost"}
BUDGETS = {
    "check": (READING, 460),
    "features": (READING, 485),
    "linear": (READING, 485),
    "run": (NEVER | {"xgboost"}, 590),
}


def require_few_imports(importtime: str, kind: str) -> None:
    """Verify what ``python -X importtime`` wrote to stderr."""
    modules = re.findall(r"^import time: +\d+ \| +\d+ \| *(\S+)$", importtime, flags=re.MULTILINE)
    denied, limit = BUDGETS[kind]
    found = {module.partition(".")[0] for module in modules} & denied
    assert not found, f"{', '.join(sorted(found))} must not be imported"
    n_modules = sum(module.startswith("gpupipe") for module in modules)
    assert 100 < n_modules <= limit, f"{n_modules} modules of gpupipe are imported; the limit is {limit}"
