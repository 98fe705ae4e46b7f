"""The checker reports wrong calls, suggests the intended name, and accepts correct calls."""

from __future__ import annotations

import pytest

from tools.gpu_api.api import Api
from tools.gpu_api.checker import check_text

ERRORS = {
    "a misspelled keyword": (
        "import cudf\ncudf.read_csv('x', use_cols=['a'])",
        "2: cudf.read_csv(): got an unexpected keyword argument 'use_cols'; did you mean 'usecols'?",
    ),
    "a keyword that **kwargs swallow": (
        "import cudf\ncudf.read_parquet('x', colums=['a'])",
        "2: cudf.read_parquet(): got an unexpected keyword argument 'colums'; did you mean 'columns'?",
    ),
    "a cluster's keyword that **kwargs swallow": (
        "from dask_cuda import LocalCUDACluster\nLocalCUDACluster(rmm_asynch=True)",
        "argument 'rmm_asynch'; did you mean 'rmm_async'?",
    ),
    "a keyword that cuml.dask hands on to its workers": (
        "from cuml.dask.linear_model import Lasso\nLasso(client=None, alpha=1.0, l1_ration=1.0)",
        "unexpected keyword argument 'l1_ration'; did you mean 'l1_ratio'?",
    ),
    "a name that is gone": ("import cudf\nx = cudf.Scalar(1)", "2: cudf has no Scalar"),
    "an import that is gone": ("from cuml.common import input_to_cuml_array", "cuml.common has no input_to_cuml_array"),
    "a module that is gone": ("import cuml.clusters", "1: no module cuml.clusters in the snapshot"),
    "a module that is private": ("import cudf\ncudf.core.dataframe.DataFrame", "cudf.core is not a public module"),
    "a positional argument of a keyword": (
        "def f():\n    from cuml.cluster import KMeans\n    return KMeans(8)",
        "3: cuml.cluster.kmeans.KMeans(): too many positional arguments",
    ),
    "a missing argument": ("import cupy as cp\ncp.take(cp.arange(3))", "missing a required argument: 'indices'"),
    "a method of a result": (
        "import cudf\nframe = cudf.read_parquet('x')\nframe.to_gpu_matrix()",
        "3: cudf.core.dataframe.DataFrame has no to_gpu_matrix",
    ),
    "a method at the end of a chain": (
        "import cudf\ncudf.read_parquet('x')['a'].fillna(0).applymap(len)",
        "cudf.core.series.Series has no applymap",
    ),
    "a method of an annotated parameter": (
        "def f(frame: 'cudf.DataFrame | None'):\n    frame.apply_rows(1)",
        "cudf.core.dataframe.DataFrame has no apply_rows",
    ),
    "a method of what a function of the file returns": (
        "import cudf\ndef read() -> cudf.DataFrame: ...\nread().as_matrix()",
        "cudf.core.dataframe.DataFrame has no as_matrix",
    ),
    "an attribute of self": (
        "import cudf\nclass A:\n    def __init__(self):\n        self.s = cudf.Series([1])\n"
        "    def f(self):\n        self.s.as_gpu()",
        "6: cudf.core.series.Series has no as_gpu",
    ),
    "a name that CuPy does not have": ("import cupy\ncupy.nanargsort", "2: cupy has no nanargsort"),
    "a name that only NumPy has": ("def f(backend):\n    backend.xp.errstate(all='ignore')", "2: cupy has no errstate"),
    "a keyword that only NumPy has": (
        "def f(xp, a, b):\n    xp.take(a, b, mode='clip')",
        "2: cupy.take(): got an unexpected keyword argument 'mode'",
    ),
    "a name that only CuPy has": ("def f(xp, a):\n    xp.asnumpy(a)", "numpy has no asnumpy, and xp may be NumPy"),
    "a keyword that only CuPy has": (
        "def f(xp, a):\n    xp.asarray(a, blocking=True)",
        "numpy.asarray(): got an unexpected keyword argument 'blocking', and xp may be NumPy",
    ),
    "a name of the frame library": ("def f(backend):\n    backend.frame.read_xml('x')", "2: cudf has no read_xml"),
    "a name in a string": ("TABLE = {'Ridge': 'cuml.linear_model:Rigde'}", "has no Rigde; did you mean 'Ridge'?"),
    "a package without a snapshot": ("import pylibcudf", "1: no module pylibcudf in the snapshot"),
}
RIGHT = """
from importlib import import_module

def read(path, *names, **options):
    import cudf
    frame = cudf.read_parquet(path, columns=list(names), row_groups=[0], **options)
    frame = frame.sort_values(["a", "b"], ignore_index=True)
    values = frame["a"].fillna(0)
    if options:
        values = values.to_cupy(dtype="float32")
    values.tolist if options else values.to_arrow()
    for part in (frame,):
        values = part
        values.unheard_of()
    return frame[["a"]].groupby("a").rolling("7D", min_periods=1).mean()["a"]

def train(X: "cupy.ndarray", y, xp, backend):
    import cupy, rmm, cuml
    from cuml.ensemble import RandomForestClassifier
    model = RandomForestClassifier(n_estimators=10, max_depth=4, output_type="cupy").fit(X, y)
    model.feature_importances_, model.as_sklearn(), model.set_params(n_bins=64)
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=2**30))
    rmm.statistics.get_statistics().peak_bytes
    cuml.set_global_output_type("cupy")
    rows = xp.flatnonzero(xp.isnan(X, out=None)).astype("int32", copy=False)
    cupy.add(X, 1, out=X)[rows].sum(axis=0)
    getattr(import_module("cuml.linear_model"), "Ridge")
    return backend.frame.concat([], axis=1), "cuml.linear_model:Ridge.as_sklearn", "notes: cuml:nothing at all"

def cluster():
    from dask_cuda import LocalCUDACluster
    return LocalCUDACluster(rmm_pool_size="1GB", device_memory_limit=0.8, dashboard_address=":0", silence_logs=50)
"""


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_found_and_located(error: str, api: Api) -> None:
    text, problem = ERRORS[error]
    found = check_text(text, "file.py", api)
    assert len(found) == 1
    assert problem in found[0].removeprefix("file.py:")


def test_correct_code_has_no_findings(api: Api) -> None:
    assert check_text(RIGHT, "file.py", api) == []


def test_in_the_files_of_a_backend_xp_is_its_own(api: Api) -> None:
    assert check_text("xp.asnumpy(1)", "gpupipe/backends/gpu/backend.py", api) == []
    assert check_text("xp.errstate(all='ignore')", "gpupipe/backends/cpu/backend.py", api) == []
    assert check_text("xp.errstate()", "gpupipe/backends/gpu/backend.py", api) == [
        "gpupipe/backends/gpu/backend.py:1: cupy has no errstate"
    ]


def test_in_the_backend_of_the_gpu_its_own_frame_is_cudf(api: Api) -> None:
    text = "class B:\n    def f(self, path):\n        return self.frame.read_parquet(path, colums=['a'])"
    (problem,) = check_text(text, "gpupipe/backends/gpu/backend.py", api)
    assert "3: cudf.read_parquet" in problem.replace("cudf.io.parquet.read_parquet", "cudf.read_parquet")
    assert "'colums'" in problem
    assert check_text(text, "gpupipe/backends/cpu/backend.py", api) == []
