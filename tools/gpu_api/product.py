"""Check of the product's use of RAPIDS against the API of one release."""

from __future__ import annotations

from pathlib import Path

from gpupipe.backends.gpu.estimators import ESTIMATORS
from gpupipe.dask import cuml_estimators
from tools.gpu_api.api import Api, check_table
from tools.gpu_api.checker import check

ROOT = Path(__file__).parents[2]
FOLDERS = ("gpupipe", "benchmarks", "tests/gpu")


def problems(api: Api) -> list[str]:
    """Return one line for each name or keyword that the product uses and the release lacks."""
    files = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))
    local = {row.path: row.passed for row in ESTIMATORS.values() if row.library in api.roots}
    distributed = cuml_estimators.ESTIMATORS.values()
    return [
        *(line.removeprefix(f"{ROOT}/") for line in check(files, api)),
        *check_table(api, local),
        *check_table(api, {row.path: {*row.passed, "client"} for row in distributed}),
        *(
            f"{row.path} has no {method}"
            for row in distributed
            for method in ("fit", "get_combined_model")
            if not api.has(f"{row.path}.{method}")
        ),
    ]
