from __future__ import annotations

import sys
from typing import Any

import pytest

from gpupipe.backends import BACKENDS, DeviceOptions, GpuProbe, choose, device_report
from gpupipe.errors import ConfigError, DeviceError

GOOD_GPU = GpuProbe(True, "NVIDIA H100, driver 580.95.05", 1, "NVIDIA H100", "580.95.05", (13, 0), (9, 0), 80 * 2**30)
NO_GPU = GpuProbe(False, "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded")


@pytest.fixture
def machine_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets what the probe finds."""

    def set_up(gpu: GpuProbe, missing: tuple[str, ...] = ()) -> None:
        monkeypatch.setattr("gpupipe.backends.probe_gpu", lambda: gpu)
        monkeypatch.setattr("gpupipe.backends.missing_packages", lambda: missing)

    return set_up


def test_cpu_is_used_on_request() -> None:
    backend = choose("cpu")
    assert (backend.name, backend.reason) == ("cpu", "asked for")


def test_requesting_cpu_runs_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupipe.backends.probe_gpu", lambda: pytest.fail("the GPU was probed"))
    assert choose("cpu").name == "cpu"


def test_an_unknown_device_is_not_treated_as_auto() -> None:
    with pytest.raises(ConfigError, match="unknown device 'cuda'"):
        choose("cuda")


def test_auto_without_a_gpu_takes_the_cpu_and_says_why(machine_with: Any) -> None:
    machine_with(NO_GPU)
    backend = choose("auto")
    assert (backend.name, backend.reason) == ("cpu", NO_GPU.reason)


def test_gpu_without_a_gpu_is_an_error_with_the_true_reason(machine_with: Any) -> None:
    machine_with(NO_GPU)
    with pytest.raises(DeviceError) as error:
        choose("gpu")
    assert error.value.exit_code == 4
    assert NO_GPU.reason in str(error.value)
    assert "--device cpu" in error.value.fix


def test_forcing_the_cpu_refuses_device_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    with pytest.raises(DeviceError, match="GPUPIPE_FORCE_CPU is set"):
        choose("gpu")


class OnAnyMachine:
    name = "gpu"

    def __init__(self, reason: str, options: DeviceOptions) -> None:
        self.reason, self.options = reason, options


@pytest.fixture
def usable_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU backend that can be made on a machine without one."""
    monkeypatch.setitem(BACKENDS, "gpu", f"{__name__}:OnAnyMachine")


@pytest.mark.usefixtures("usable_gpu")
def test_a_listed_gpu_backend_is_taken_by_auto_and_by_gpu(machine_with: Any) -> None:
    machine_with(GOOD_GPU)
    assert [choose("auto").reason, choose("gpu").reason] == [GOOD_GPU.reason] * 2
    assert device_report().gpu_obstacle == ""


@pytest.mark.usefixtures("usable_gpu")
@pytest.mark.parametrize(("cuda", "extra"), [((13, 1), "cuda13"), ((12, 4), "cuda12")])
def test_missing_packages_are_named_with_the_extra_that_has_them(
    machine_with: Any, cuda: tuple[int, int], extra: str
) -> None:
    machine_with(GpuProbe(True, "a GPU", 1, cuda=cuda, capability=(9, 0)), missing=("cudf", "rmm"))
    assert choose("auto").reason == "the GPU packages are incomplete: cudf, rmm are not installed"
    with pytest.raises(DeviceError, match="cudf, rmm are not installed") as error:
        choose("gpu")
    assert f"pip install 'gpupipe[{extra}]'" in error.value.fix


def test_the_report_contains_the_output_of_check_and_doctor(machine_with: Any) -> None:
    machine_with(NO_GPU, missing=("cudf",))
    report = device_report()
    assert report.gpu == NO_GPU
    assert report.missing_packages == ("cudf",)
    assert report.gpu_obstacle == NO_GPU.reason
    assert report.n_threads >= 1
    assert report.memory.total > 0


def test_every_listed_backend_can_be_imported() -> None:
    for entry in BACKENDS.values():
        module, _, name = entry.partition(":")
        __import__(module)
        assert hasattr(sys.modules[module], name)
