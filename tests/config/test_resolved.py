"""The configuration that a run directory keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.config import Config, load_config, parse_config, resolved_yaml

Load = Callable[..., Config]

WORDS = st.text(alphabet="abcÄ ${}_:-#'\"1.\n", min_size=1, max_size=8)
OPS = st.sampled_from(["standardize", "impute", "log1p", "min_max", "encode", "one_hot"])
CONFIGS = st.fixed_dictionaries(
    {
        "source": st.fixed_dictionaries(
            {"generate": st.just("churn")}, optional={"target": WORDS, "positive": WORDS | st.integers()}
        )
    },
    optional={
        "name": WORDS,
        "seed": st.integers(0, 2**32 - 1),
        "split": st.fixed_dictionaries({"test_size": st.floats(0.01, 0.9)}),
        "features": st.lists(
            st.builds(lambda op, columns: {op: columns}, OPS, st.lists(WORDS, min_size=1, max_size=3)), max_size=3
        ),
        "models": st.sampled_from(
            [[], ["xgboost"], [{"xgboost": {"learning_rate": 1e-5}}, {"name": "xgboost", "as": "b"}]]
        ),
    },
)


def reload(config: Config, path: Path) -> Config:
    path.write_text(resolved_yaml(config), encoding="utf-8")
    return load_config(path, environment={})


@settings(max_examples=60, deadline=None)
@given(CONFIGS)
def test_what_is_written_is_read_back_as_an_equal_configuration(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]
) -> None:
    config = parse_config(tree)
    assert reload(config, tmp_path_factory.getbasetemp() / "resolved.yaml") == config


def test_every_default_is_filled_in(load: Load) -> None:
    written = yaml.safe_load(resolved_yaml(load("features: [{impute: a}]\nmodel: xgboost\n")))
    assert list(written) == list(Config.model_fields)
    assert written["seed"] == 0
    assert written["models"][0]["params"]["max_depth"] == 6
    assert written["features"][0]["impute"]["strategy"] == "median"


def test_writing_twice_gives_the_same_text(load: Load, tmp_path: Path) -> None:
    config = load("models: [xgboost, random_forest]\n")
    assert resolved_yaml(reload(config, tmp_path / "resolved.yaml")) == resolved_yaml(config)


def test_a_variable_is_written_as_its_value(load: Load) -> None:
    assert yaml.safe_load(resolved_yaml(load("name: ${WHO}\n", WHO="me")))["name"] == "me"


def test_credentials_in_an_address_are_masked(load: Load) -> None:
    source = "source:\n  path: s3://${USER}:${PASS}@store:9000/bucket/a.parquet\n  target: y\n"
    written = resolved_yaml(load(source, USER="me", PASS="secret"))
    assert "secret" not in written
    assert yaml.safe_load(written)["source"]["path"] == "s3://***@store:9000/bucket/a.parquet"
