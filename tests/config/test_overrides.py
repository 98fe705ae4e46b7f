"""Overrides with ``--set path=value``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.config import Config, parse_config
from gpupipe.config.composer import Composer
from gpupipe.config.document import build_tree
from gpupipe.config.overrides import apply_override

Load = Callable[..., Config]
Problems = Callable[..., Sequence[str]]

TWO_MODELS = "models:\n  - logistic_regression\n  - xgboost: {max_depth: 6}\n"
TWO_OPS = "features:\n  - impute: {columns: [a], strategy: mean}\n  - standardize: [a, b]\n"


def test_a_field_is_changed_whether_the_file_has_it_or_not(load: Load) -> None:
    assert load("seed: 3\n", "seed=8").seed == 8
    assert load("", "seed=8", "split.test_size=0.5").split.test_size == 0.5


def test_the_last_of_several_wins(load: Load) -> None:
    assert load("", "seed=1", "seed=2").seed == 2


def test_a_value_is_yaml(load: Load) -> None:
    config = load("", "source.drop=[a, 'b c']", "source={generate: churn, target: x}", "name='8'")
    assert (config.source.target, config.source.drop, config.name) == ("x", (), "8")
    assert load("", "source.drop=[a, 'b c']").source.drop == ("a", "b c")


def test_a_value_may_name_a_variable(load: Load) -> None:
    assert load("", "seed=${SEED}", SEED="4").seed == 4


@pytest.mark.parametrize(
    "path",
    [
        "models.xgboost.params.max_depth",
        "models.1.params.max_depth",
        "models[1].params.max_depth",
        "models[1].xgboost.max_depth",
        "models.xgboost.max_depth",
    ],
)
def test_a_model_is_addressed_by_name_or_index(load: Load, path: str) -> None:
    config = load(TWO_MODELS, f"{path}=9")
    assert config.models[1].params.max_depth == 9  # type: ignore[attr-defined]
    assert config.models[0] == load(TWO_MODELS).models[0]


@pytest.mark.parametrize("text", ["model: xgboost\n", "models: [xgboost]\n", "models:\n  - {name: xgboost, as: a}\n"])
@pytest.mark.parametrize("path", ["model.params.max_depth", "model.max_depth", "models.0.params.max_depth"])
def test_a_single_model_needs_no_name(load: Load, text: str, path: str) -> None:
    assert load(text, f"{path}=9").models[0].params.max_depth == 9  # type: ignore[attr-defined]


def test_a_label_takes_precedence_over_the_name(load: Load) -> None:
    config = load("models: [xgboost, {xgboost: {}, as: deep}]\n", "models.deep.params.max_depth=12")
    assert [entry.params.max_depth for entry in config.models] == [6, 12]  # type: ignore[attr-defined]


@pytest.mark.parametrize("override", ["model=xgboost", "models=[xgboost]", "models=xgboost", "model={name: xgboost}"])
def test_the_models_are_replaced_as_a_whole(load: Load, override: str) -> None:
    assert [entry.name for entry in load(TWO_MODELS, override).models] == ["xgboost"]
    assert [entry.name for entry in load("model: random_forest\n", override).models] == ["xgboost"]


@pytest.mark.parametrize(
    "path",
    [
        "features.standardize.columns",
        "features.1.columns",
        "features[1].standardize.columns",
        "features[1].standardize",
    ],
)
def test_an_op_is_addressed_by_name_or_index(load: Load, path: str) -> None:
    assert load(TWO_OPS, f"{path}=[c]").features[1].columns == ["c"]  # type: ignore[attr-defined]


def test_an_op_is_replaced_as_a_whole(load: Load) -> None:
    assert load(TWO_OPS, "features.0={log1p: x}").features[0].columns == "x"  # type: ignore[attr-defined]


def test_a_name_with_dots_is_put_in_quotes(load: Load) -> None:
    assert "total.charges" in load("", 'source.schema."total.charges"=float').source.declared


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "expected path=value, for example --set seed=8"),
        ("=8", "expected path=value, for example --set seed=8"),
        ("sede=8", "sede: unknown key; did you mean 'seed'?"),
        ("seed=x", "seed: expected a whole number, got 'x'"),
        ("seed.a=x", "seed is 3; it has no fields"),
        ("seed=[", "not valid YAML: did not find expected node content"),
        ("models.xgbost.params.max_depth=8", "models has no items named 'xgbost'; did you mean 'xgboost'?"),
        ("models.7.params.max_depth=8", "models[7] does not exist: the list has 2 items"),
        ("models.xgboost.params.max_dept=8", "models.xgboost.params.max_dept: unknown key; did you mean 'max_depth'?"),
        ("model.params.max_depth=8", "the file has 2 models; name one, as in models.xgboost.params.max_depth"),
        ("features.impute.strategy=mean", "the file has no features; set the whole list: --set 'features=[...]'"),
        ("seed=${NOPE}", "seed: the environment variable NOPE is not set; set it, or add a default: ${NOPE:default}"),
    ],
)
def test_a_wrong_override_is_located_by_itself(problems: Problems, override: str, message: str) -> None:
    assert problems(f"seed: 3\n{TWO_MODELS}", override) == [f"--set {override}: {message}"]


def test_an_ambiguous_name_needs_an_index(problems: Problems) -> None:
    (problem,) = problems("features:\n  - impute: a\n  - impute: b\n", "features.impute.strategy=mean")
    assert problem.endswith("features has 2 items named 'impute'; use its index")


KEYS = st.text(alphabet="abcxyz_", min_size=1, max_size=4).filter(
    lambda key: key not in ("model", "models", "features")
)
TREES = st.recursive(
    st.integers() | st.booleans() | st.text(alphabet="ab 1:#", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4), st.integers(), st.data())
def test_an_override_changes_only_its_path(tree: dict[str, Any], new: int, data: st.DataObject) -> None:
    """The reference is Python's own indexing of the plain tree."""
    root, steps = build_tree(tree, "settings"), []
    parent: Any = tree
    while True:
        options = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        step = data.draw(st.sampled_from(options))
        steps.append(str(step))
        below = parent[step]
        if not below or not isinstance(below, dict | list) or data.draw(st.booleans()):
            break
        parent = below
    composer = Composer({}, problems=[])
    apply_override(root, f"{'.'.join(steps)}={new}", composer)
    parent[step] = new
    assert root.plain() == tree
    assert composer.problems == []


def test_overrides_of_a_mapping_work_as_those_of_a_file() -> None:
    given_settings = {"source": {"generate": "churn"}, "models": ["xgboost"]}
    assert parse_config(given_settings, ["model.max_depth=2"]).models[0].params.max_depth == 2  # type: ignore[attr-defined]
    assert given_settings["models"] == ["xgboost"]
