"""Rehearse the GPU tests without a GPU: ``python -m pytest -p tests.gpu.rehearsal tests/gpu``.

This plugin replaces the GPU backend with a test double: arrays behave as CuPy's (`tests.backends.double`),
pandas reads for cuDF, scikit-learn and XGBoost train on the CPU, and programs run on the host. It finds what would stop
a test on an expensive machine before it has measured anything: misspelt names, absent fixtures, wrong paths and
keywords, arrays that mix host and device. It proves nothing of a GPU. Row counts are reduced.

``python -m tests.gpu.rehearsal STEP ...`` rehearses steps of `benchmarks.device`. With ``REHEARSE_WITHOUT_RAPIDS=1``
both have CuPy alone: cuDF, cuML and RMM cannot be imported, and arrays are counted by a double of the driver's pool.

Tests of PyTorch's CUDA tensors, of processes that need the driver, and of Numba's device are skipped, with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before anything imports Numba

import numpy as np
import pandas as pd
import pytest
import xgboost

import gpupipe.backends
import gpupipe.backends.gpu.backend
from benchmarks.device import comparisons, end_to_end
from benchmarks.device import keyed as device_keyed
from benchmarks.device import networks as device_networks
from benchmarks.device import program as device_program
from benchmarks.device.steps import STEPS
from benchmarks.device.suite import networks
from gpupipe.backends import probe
from gpupipe.backends.base import DEFAULT_OPTIONS, DeviceOptions
from gpupipe.backends.gpu import estimators
from gpupipe.backends.gpu.backend import GpuBackend
from gpupipe.backends.gpu.memory import set_up
from gpupipe.backends.probe import RAPIDS, GpuProbe
from gpupipe.plan import run_plan
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from tests.backends.double import DeviceArray, DeviceDouble, _unwrapped, xp
from tests.backends.driver_pool import DriverPool
from tests.backends.pandas_double import PandasBackend

ROWS = {"ROWS": 400, "CHURN_ROWS": 400, "N": 2_000}  # of a test module's constants
SIMULATED_ROWS = 5_000
GPU = GpuProbe(True, "a rehearsal without a GPU", 1, "a rehearsal", "0", (13, 0), (9, 0), 80 << 30, 79 << 30)
NEEDS = {
    "test_batches": "needs PyTorch's CUDA tensors",
    "test_cluster": "needs dask-cuda's workers",
    "test_kernels": "needs Numba on a device (kernels are simulated in tests/kernels)",
    "test_memory": "needs processes on a device",
    "test_nothing_silent": "needs processes on a device",
    "test_tensors": "needs PyTorch's CUDA tensors",
    "test_recorded_predictions_are_reproduced_on_both": "needs processes on a device",
    "test_a_model_without_a_device_version_is_refused_by_name_with_exit_code_4": "needs processes on a device",
    "test_online_retail_runs_entirely_on_the_device_with_the_metrics_of_the_host": "too many rows for the simulator",
    "test_online_retail_records_its_device_and_predicts_on_both": "too many rows for the simulator",
    "test_the_matrix_is_a_tensor_without_a_copy": "needs PyTorch's CUDA tensors",
}


class OnDevice:
    """An estimator of the host that takes and returns arrays of the test double, as cuML's do."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._estimator, {"sigma_": "var_"}.get(name, name))  # cuML's name, of GaussianNB
        return _on_device(found) if callable(found) else _wrapped(found)

    def as_sklearn(self) -> Any:
        """Return the host's estimator, as cuML's twins do."""
        return self._estimator


def _on_device(function: Any) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        found = function(*map(_unwrapped, given), **{name: _unwrapped(value) for name, value in named.items()})
        return OnDevice(found) if hasattr(found, "get_params") else _wrapped(found)

    return call


def _wrapped(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wrapped, value))
    return DeviceArray(np.asarray(value)) if isinstance(value, np.ndarray) else value


def _plain(value: Any) -> Any:
    return value._ary if isinstance(value, DeviceArray) else value


class RehearsalSeries(pd.Series):
    """A series of pandas that takes and returns arrays of the test double."""

    def __init__(self, data: Any = None, *arguments: Any, **named: Any) -> None:
        super().__init__(_plain(data), *arguments, **named)  # type: ignore[call-arg]  # the stubs know __new__ alone

    @property
    def _constructor(self) -> Any:
        return RehearsalSeries

    @property
    def _constructor_expanddim(self) -> Any:
        return RehearsalFrame

    def to_cupy(self, dtype: Any = None, na_value: Any = None) -> Any:
        """Return the values as an array of the test double."""
        return DeviceArray(self.to_numpy(dtype) if na_value is None else self.to_numpy(dtype, na_value=na_value))

    def factorize(self, *arguments: Any, **named: Any) -> Any:
        """Return codes as an array of the test double, and the levels."""
        codes, levels = super().factorize(*arguments, **named)
        return DeviceArray(codes), levels


class RehearsalFrame(pd.DataFrame):
    """A frame of such series."""

    def __init__(self, data: Any = None, *arguments: Any, **named: Any) -> None:
        plain = {k: _plain(v) for k, v in data.items()} if isinstance(data, dict) else data
        super().__init__(plain, *arguments, **named)  # type: ignore[call-arg]  # the stubs know __new__ alone

    @property
    def _constructor(self) -> Any:
        return RehearsalFrame

    @property
    def _constructor_sliced(self) -> Any:
        return RehearsalSeries


class _FrameNamespace:
    """pandas under cuDF's name."""

    Series, DataFrame = RehearsalSeries, RehearsalFrame

    def __getattr__(self, name: str) -> Any:
        return getattr(pd, name)


class RehearsalBackend(DeviceDouble):
    """The test double of `GpuBackend`."""

    def __init__(self, reason: str = "a rehearsal", options: DeviceOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(options)
        self.reason = reason
        self._pandas = PandasBackend(reason, options)

    @property
    def frame(self) -> Any:
        """The dataframe namespace, pandas'."""
        return _FrameNamespace()

    def read_columns(
        self, file_format: str, path: Any, columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        """Read with pandas."""
        return RehearsalFrame(self._pandas.read_columns(file_format, path, columns, groups))

    def values(self, series: Any, dtype: str) -> Any:
        """Return the values as an array of the test double."""
        return self.to_device(np.asarray(self._pandas.values(series, dtype)))

    def ticks(self, series: Any) -> tuple[Any, str]:
        """Return the times as an array of the test double, and their unit."""
        ticks, unit = self._pandas.ticks(series)
        return self.to_device(np.asarray(ticks)), unit

    def to_arrow(self, series: Any) -> Any:
        """Return a ``pyarrow.Array``."""
        return self._pandas.to_arrow(series)

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        """Return the host's estimator, refused where the GPU's is."""
        assert estimators.refusal(name, params, self.lacks) is None
        return OnDevice(self._pandas.estimator(name, params))

    def run_program(self, program: Any, blocks: Mapping[str, Any], out: Any, fold: Any = None) -> None:
        """Run `program` on the host."""
        there = {name: _unwrapped(block) for name, block in blocks.items()}
        numpy_interpreter.run(program, there, _unwrapped(out), _unwrapped(fold))
        self.last_interpreter = "cuda"

    def free_bytes(self) -> int:
        """Return the bytes that the GPU of the rehearsal has free."""
        return GPU.free_bytes


class WithoutRapids(RehearsalBackend):
    """The test double of `GpuBackend` where CuPy is installed, but no package of RAPIDS."""

    missing = frozenset(RAPIDS)
    frame, open_stage, close_stage = GpuBackend.frame, GpuBackend.open_stage, GpuBackend.close_stage

    def __init__(self, reason: str = "a rehearsal", options: DeviceOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(reason, options)
        self.device_memory = set_up(options)


def install(without_rapids: bool = os.environ.get("REHEARSE_WITHOUT_RAPIDS") == "1") -> None:
    """Replace the GPU backend with the test double, and the hand-over to PyTorch with one on the host."""
    backends: Any = gpupipe.backends
    backends.probe_gpu = lambda: GPU
    backends.missing_packages = lambda: tuple(set(probe.GPU_PACKAGES).intersection(RAPIDS if without_rapids else ()))
    if without_rapids:
        DeviceArray.pool = DriverPool()
        cupy: Any = _Cupy(DeviceArray.pool.cupy().cuda)
        modules: Any = {**dict.fromkeys(RAPIDS), "cupy": cupy, "cupy.cuda": cupy.cuda}
        sys.modules.update(modules)
    else:
        probe.missing_packages = lambda packages=(): ()
        probe.lacks_package = run_plan.lacks_package = probe.lacks_nothing  # type: ignore[attr-defined]
    gpupipe.backends.gpu.backend.GpuBackend = WithoutRapids if without_rapids else RehearsalBackend  # type: ignore[misc]
    _install_torch()
    estimators._xgboost_knows_cuda = lambda: True
    predict = xgboost.Booster.inplace_predict

    def inplace_predict(self: Any, data: Any, *given: Any, **named: Any) -> Any:
        found = predict(self, _plain(data), *given, **named)
        return _wrapped(found) if isinstance(data, DeviceArray) else found

    xgboost.Booster.inplace_predict = inplace_predict


def _install_torch() -> None:
    """Train networks on the host, with the memory of the test double's arrays."""
    fit: Any = import_module("gpupipe.models.neural.fit")
    pytorch: Any = import_module("gpupipe.models.neural.fitted.pytorch")
    double: Any = DeviceArray
    double.__dlpack__ = lambda self, **named: self._ary.__dlpack__(**named)
    double.__dlpack_device__ = lambda self: self._ary.__dlpack_device__()
    fit.refusal, fit._n_processes = lambda backend: None, lambda context: context.resources.n_processes
    fit.share_memory = lambda backend: True
    pytorch.from_dlpack = lambda tensor: DeviceArray(tensor.numpy())


def pytest_configure(config: pytest.Config) -> None:
    """Replace the GPU backend with the test double."""
    install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reduce row counts, and skip what cannot be rehearsed."""
    for item in items:
        module: ModuleType = item.module  # type: ignore[attr-defined]
        for name in ROWS.keys() & vars(module).keys():
            setattr(module, name, ROWS[name])
        params = getattr(getattr(item, "callspec", None), "params", {})
        drawn = params.get("source", {})
        if isinstance(drawn, dict) and drawn.get("rows", 0) > SIMULATED_ROWS:
            item.add_marker(pytest.mark.skip(reason=f"not rehearsed: more than {SIMULATED_ROWS} rows in the simulator"))
        what = NEEDS.get(item.path.stem) or NEEDS.get(getattr(item, "originalname", ""))
        if params.get("model") in networks():
            what = "needs PyTorch's CUDA tensors"
        if what:
            item.add_marker(pytest.mark.skip(reason=f"cannot be rehearsed: {what}"))


def main(steps: Sequence[str]) -> None:
    """Run steps of `benchmarks.device` on little data, and print what they save last."""
    install()
    device_program.BATCHES = device_program.CALLS = device_keyed.CALLS = 1
    device_program.COPY_BYTES, comparisons.GENERATED_ROWS, end_to_end.COMPARED_ROWS = 1 << 10, 3_000, 3_000
    device_networks.COMPARED_ROWS = device_networks.TIMED_ROWS = 3_000
    if sys.modules.get("cudf", "absent") == "absent":
        sys.modules["cudf"], sys.modules["cupy"] = _FrameNamespace(), _Cupy()  # type: ignore[assignment]
    options = argparse.Namespace(rows=300, events=300)
    for name in steps:
        saved: list[Any] = []
        try:
            document = STEPS[name].run(options, saved.append)
            print(name, "ended:", *document["lines"], *document.get("failed", []), sep="\n  ", flush=True)
        except Exception as error:  # of any library: where a device is needed at last
            print(f"{name}: after {len(saved)} saves: {type(error).__name__}: {error}", flush=True)


class _Cupy:
    """The namespace of the test double, with the device that a step synchronises."""

    def __init__(self, cuda: SimpleNamespace | None = None) -> None:
        self.cuda = cuda or SimpleNamespace()
        self.cuda.Device = lambda: SimpleNamespace(synchronize=lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(xp, name)


if __name__ == "__main__":
    main(sys.argv[1:])
