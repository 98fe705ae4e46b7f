"""The RAPIDS API that gpupipe uses: it exists in the oldest and the newest release that the extras allow."""

from __future__ import annotations

import re
import tomllib

import pytest

from tools.gpu_api.api import RELEASES, Api, check_table
from tools.gpu_api.product import ROOT, problems


def test_everything_used_of_rapids_exists(api: Api) -> None:
    if found := problems(api):
        pytest.fail("\n".join([f"not in RAPIDS {api.versions['cudf']}:", *found]), pytrace=False)


def test_a_wrong_parameter_of_a_cluster_estimator_is_found(api: Api) -> None:
    """The snapshot has the parameters that cuml.dask passes to its workers."""
    assert list(check_table(api, {"cuml.dask.linear_model:Ridge": ["alhpa", "output_type"]})) == [
        "cuml.dask.linear_model:Ridge takes no parameter 'alhpa'; did you mean 'alpha'?",
        "cuml.dask.linear_model:Ridge takes no parameter 'output_type'",
    ]


@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_snapshots_are_the_ends_of_the_window_of_the_extras(extra: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    windows = {
        tuple(re.findall(r">=([\d.]+),<([\d.]+)", line)) for line in extras[extra] if re.match(r"cu[dm]|rmm", line)
    }
    [((oldest, beyond),)] = windows
    assert RELEASES[0] == oldest
    assert beyond == re.sub(r"\d+$", lambda month: str(int(month[0]) + 1), RELEASES[1])


@pytest.mark.parametrize("package", ["cudf", "cuml", "dask_cuda", "dask_cudf", "rmm"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_snapshot_describes_the_release_in_its_name(release: str, package: str) -> None:
    assert Api.of_release(release).versions[package].startswith(f"{release}.")


def test_a_name_in_the_api_is_found_by_its_path(api: Api) -> None:
    assert api.has("cuml.linear_model:LogisticRegression")
    assert api.has("cuml.cluster:KMeans.as_sklearn")
    assert not api.has("cuml.cluster:AgglomerativeClustering.as_sklearn")
    assert not api.has("cuml.experimental.fil:ForestInference")


def test_the_parameters_of_an_estimator_are_known(api: Api) -> None:
    assert {"n_clusters", "max_iter", "random_state", "output_type"} <= (api.parameters("cuml.cluster:KMeans") or set())


def test_unknown_parameters_give_none(api: Api) -> None:
    assert api.parameters("cuml.cluster:KMeans.set_params") is None


def test_the_parameters_of_a_name_that_is_not_there_are_an_error(api: Api) -> None:
    with pytest.raises(KeyError, match="KMeans"):
        api.parameters("cuml.cluster:KMean")


def test_a_table_is_checked_by_class_and_parameter(api: Api) -> None:
    right = {"cuml.linear_model:Ridge": ["alpha", "fit_intercept"], "cuml.decomposition:PCA": ["n_components"]}
    wrong = {"cuml.linear_model:Ridge": ["alhpa"], "cuml.linear_model:Rigde": []}
    assert list(check_table(api, right)) == []
    assert list(check_table(api, wrong)) == [
        "cuml.linear_model:Ridge takes no parameter 'alhpa'; did you mean 'alpha'?",
        "cuml.linear_model has no Rigde; did you mean 'Ridge'?",
    ]
