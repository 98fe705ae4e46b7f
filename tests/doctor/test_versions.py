from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from gpupipe.doctor.finding import Finding
from gpupipe.doctor.packages import version_findings

CORE = [
    *("click", "fsspec", "jinja2", "markdown-it-py", "numba", "numpy", "packaging", "pandas", "pyarrow", "pydantic"),
    *("pyyaml", "rich", "scikit-learn", "threadpoolctl"),
]


@pytest.fixture
def whole(site: Any) -> Any:
    """A folder with gpupipe and, as they are here, the libraries that every run needs."""
    site.add_gpupipe()
    for name in CORE:
        site.add(name, version(name))
    return site


def test_the_libraries_of_this_environment_are_inside_of_all_windows(whole: Any) -> None:
    assert version_findings(whole.read()) == []


def test_a_missing_required_library_is_reported(site: Any) -> None:
    site.add_gpupipe()
    findings = {finding.check: finding for finding in version_findings(site.read())}
    assert set(findings) == set(CORE)
    assert findings["rich"] == Finding("error", "rich", "not installed; gpupipe requires it", "pip install 'rich>=13'")


def test_a_release_outside_the_window_of_the_extra_is_a_warning(whole: Any) -> None:
    whole.add("cudf-cu13", "25.12.0")
    assert version_findings(whole.read()) == [
        Finding(
            "warning",
            "cudf-cu13",
            "gpupipe[cuda13] requires <26.11,>=26.8, found 25.12.0",
            "pip install 'cudf-cu13<26.11,>=26.8'",
        )
    ]


def test_a_nightly_build_inside_the_window_is_fine(whole: Any) -> None:
    whole.add("cudf-cu13", "26.10.0a34")
    assert version_findings(whole.read()) == []


def test_gpu_version_ranges_are_ignored_without_gpu_packages(whole: Any) -> None:
    whole.add("xgboost", "3.2.0")
    assert version_findings(whole.read()) == []
    whole.add("torch", "2.9.1")
    assert [finding.check for finding in version_findings(whole.read())] == ["torch"]


def test_a_package_of_both_extras_is_reported_once(whole: Any) -> None:
    whole.add("cupy-cuda13x", "14.2.0")
    whole.add("numba-cuda", "0.40.0")
    assert [finding.check for finding in version_findings(whole.read())] == ["numba-cuda"]


@pytest.mark.parametrize(
    ("name", "cap", "installed"), [("pandas", "<3.1.0,>=3.0.0", "3.1.1"), ("numba", "<0.65", "0.68")]
)
def test_a_version_above_the_caps_of_cudf_is_a_warning(site: Any, name: str, cap: str, installed: str) -> None:
    site.add("cudf-cu13", "26.10.2", [f"{name}{cap}", "rmm-cu13==26.10.*", "pytest<9; extra == 'test'"])
    site.add(name, installed)
    site.add("pytest", "9.2.0")
    site.add("rmm-cu13", "26.8.0")  # reported as a mix of releases, not twice
    own, finding = version_findings(site.read())
    assert (own.check, own.fix) == ("versions", "pip install -e .")
    assert (finding.level, finding.check) == ("warning", name)
    assert finding.found == f"cudf-cu13 26.10.2 requires {cap}, found {installed}"
    assert finding.fix == f"pip install '{name}{cap}'"


@pytest.mark.parametrize(
    ("numpy", "numba_cuda", "n_found"), [("2.5.0", "0.30.4", 1), ("2.4.6", "0.30.4", 0), ("2.5", "0.31", 0)]
)
def test_numpy_without_row_stack_is_nothing_for_numba_cuda(
    site: Any, numpy: str, numba_cuda: str, n_found: int
) -> None:
    site.add("numpy", numpy)
    site.add("numba-cuda", numba_cuda)
    found = [finding for finding in version_findings(site.read()) if finding.check == "numba-cuda and NumPy"]
    assert [finding.level for finding in found] == ["warning"] * n_found
    assert all(finding.fix == "pip install 'numpy<2.5'" for finding in found)


def test_nonstandard_versions_and_requirements_are_skipped(whole: Any) -> None:
    whole.add("cudf-cu13", "my-build", ["pandas (sort of new)"])
    assert version_findings(whole.read()) == []
