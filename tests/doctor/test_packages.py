from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupipe.backends.probe import GPU_PACKAGES, RAPIDS, GpuProbe
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.packages import package_findings

NO_GPU = GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")


def said(site: Any, gpu: GpuProbe = NO_GPU) -> list[Finding]:
    return package_findings(site.read(), gpu)


def test_no_gpu_package_is_fine_without_a_gpu(site: Any) -> None:
    site.add("numpy", "2.4.0")
    assert said(site) == [Finding("ok", "GPU packages", "none installed; without a GPU, none is required")]


def test_packages_are_not_called_needless_if_the_driver_is_broken(site: Any) -> None:
    assert said(site, GpuProbe(False, "error 18", obstacle="nvml_18"))[0].found == "none installed"


def test_a_complete_set_is_ok(site: Any) -> None:
    for name in ("cudf-cu13", "cuml-cu13", "rmm-cu13", "dask-cudf-cu13", "dask-cuda"):
        site.add(name, "26.10.0")
    site.add("cupy-cuda13x", "14.2.0")
    site.add("nvidia-nccl-cu12", "2.30")  # PyTorch's, in a separate folder
    assert said(site) == [Finding("ok", "GPU packages", "one release, built for CUDA 13")]


def test_mixed_wheels_are_all_replaced_by_those_of_the_driver(site: Any, gpu: GpuProbe) -> None:
    site.add("cudf-cu12", "26.10.0")
    site.add("cupy-cuda13x", "14.2.0")
    finding = said(site)[0]
    assert finding.level == "error"
    assert finding.found.endswith("CUDA 12: cudf-cu12; CUDA 13: cupy-cuda13x")
    assert finding.fix == "pip uninstall -y cudf-cu12 cupy-cuda13x && pip install 'gpupipe[cuda13]'"
    finding = said(site, replace(gpu, cuda=(12, 8)))[0]
    assert finding.fix == "pip uninstall -y cudf-cu12 cupy-cuda13x && pip install 'gpupipe[cuda12]'"


def test_of_several_cupy_wheels_the_one_that_the_extra_asks_for_stays(site: Any) -> None:
    site.add_gpupipe()
    site.add("cupy", "14.2.0")
    site.add("cupy-cuda13x", "14.2.0")
    (finding,) = said(site)
    assert (finding.level, finding.check) == ("error", "CuPy wheels")
    assert finding.found.endswith("cupy-cuda13x, cupy")
    assert finding.fix == "pip uninstall -y cupy-cuda13x cupy && pip install 'cupy-cuda13x!=14.1.0,>=14.0.1'"


def test_two_xgboost_overwrite_each_other(site: Any) -> None:
    site.add("xgboost-cpu", "3.4.0")
    site.add("xgboost", "3.4.0")
    (finding,) = said(site)
    assert (finding.level, finding.check) == ("error", "XGBoost wheels")
    assert finding.fix == "pip uninstall -y xgboost xgboost-cpu && pip install 'gpupipe[cuda13]'"


def test_packages_of_different_releases_are_brought_to_the_newest(site: Any) -> None:
    site.add("cudf-cu13", "26.10.2")
    site.add("cuml-cu13", "26.8.0")
    (finding,) = said(site)
    assert (finding.level, finding.check) == ("error", "RAPIDS release")
    assert finding.found == "expected one release, found cudf-cu13 26.10.2, cuml-cu13 26.8.0"
    assert finding.fix == "pip install 'cudf-cu13==26.10.*' 'cuml-cu13==26.10.*'"


def test_a_month_with_a_zero_is_the_same_release(site: Any) -> None:
    site.add("cudf-cu13", "26.08.01")
    site.add("cuml-cu13", "26.8.0")
    assert [finding.level for finding in said(site)] == ["ok"]


@pytest.mark.parametrize("metadata", [None, b"", b"Name: cudf-cu13\n", b"\xff\xfe\x00", b"Version: 1\n"], ids=str)
def test_metadata_that_cannot_be_read_is_a_finding(site: Any, metadata: bytes | None) -> None:
    folder = site.add("cudf-cu13", "26.10.0")
    (folder / "METADATA").unlink()
    if metadata is not None:
        (folder / "METADATA").write_bytes(metadata)
    finding = said(site)[0]
    assert (finding.level, finding.check) == ("warning", "metadata")
    assert "cudf_cu13-26.10.0.dist-info: name or version of the package is missing" in finding.found


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the packages that cannot be found."""

    def set_up(*names: str) -> None:
        def found(packages: tuple[str, ...] = GPU_PACKAGES) -> tuple[str, ...]:
            return tuple(name for name in packages if name in names)

        monkeypatch.setattr("gpupipe.doctor.packages.missing_packages", found)

    return set_up


def test_a_gpu_without_its_packages_is_an_error(site: Any, gpu: GpuProbe, missing: Any) -> None:
    missing("cupy", *RAPIDS)
    (finding,) = said(site, gpu)
    assert finding.level == "error"
    assert finding.found == "the GPU packages are incomplete: cupy is not installed"
    assert finding.fix == "pip install 'gpupipe[cuda13]', or 'gpupipe[cuda13-lite]' without RAPIDS"
    assert said(site, replace(gpu, cuda=(12, 4)))[0].fix.startswith("pip install 'gpupipe[cuda12]'")


def test_without_rapids_the_work_of_the_cpu_is_reported(site: Any, gpu: GpuProbe, missing: Any) -> None:
    site.add("cupy-cuda13x", "14.2.0")
    missing(*RAPIDS)
    whole, finding = said(site, gpu)
    assert (whole.level, finding.level, finding.check) == ("ok", "ok", "RAPIDS")
    assert finding.found.startswith("not installed: files are read on the CPU")
    assert said(site) == [whole]  # without a GPU it does not matter


def test_a_part_of_rapids_is_an_error(site: Any, gpu: GpuProbe, missing: Any) -> None:
    site.add("cudf-cu13", "26.10.0")
    missing("cuml", "rmm")
    finding = said(site, gpu)[-1]
    assert (finding.level, finding.fix) == ("error", "pip install 'gpupipe[cuda13]'")
    assert finding.found.endswith("cuml, rmm are not installed")
