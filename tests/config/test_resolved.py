"""The resolved configuration in a run directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.config import Config, load_config, parse_config, resolved_yaml
from gpupipe.errors import ConfigError
from tests.examples import examples

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


@examples(60)
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


HIDDEN = """
name: "${WHO}"
seed: ${SEED}
source:
  path: "s3://${KEY}:${PASS}@store:9000/a.parquet?Expires=60&Signature=abc%2F"
  target: ${TARGET!}
  schema: {a: "${KIND}"}
features: [{standardize: "${COLUMN}"}, {impute: [b, "${COLUMN}"]}]
models: [ridge, {xgboost: {max_depth: "${DEPTH:4}"}}]
output: ${OUT:runs/}x
"""
SECRETS = {
    "WHO": "12345", "SEED": "77", "KEY": "AKIAX", "PASS": "p@ss", "TARGET": "y", "KIND": "float",
    "COLUMN": "income", "OUT": "/secret/",
}  # fmt: skip


def test_a_variable_is_written_as_its_name_and_is_read_back(load: Load, tmp_path: Path) -> None:
    config = load(HIDDEN, **SECRETS)
    text = resolved_yaml(config)
    assert not [value for name, value in SECRETS.items() if name != "TARGET" and value in text]
    assert yaml.safe_load(text)["source"]["target"] == "y"  # it may be seen
    assert yaml.safe_load(text)["models"][1]["params"]["max_depth"] == 4  # a default may, too
    path = tmp_path / "resolved.yaml"
    path.write_text(text, encoding="utf-8")
    again = load_config(path, environment=SECRETS)
    assert again.model_copy(update={"source": config.source}) == config
    assert again.source.path == "s3://AKIAX:p@ss@store:9000/a.parquet?Expires=***&Signature=***"
    with pytest.raises(ConfigError, match="SEED is not set"):
        load_config(path, environment={})


def test_a_variable_is_not_shown_in_an_error(problems: Callable[..., list[str]]) -> None:
    (found,) = problems("device: ${WHERE}\n", WHERE="s3cr3t-token")
    assert "s3cr3t" not in found
    assert "${WHERE}" in found


def test_credentials_in_an_address_are_masked(load: Load) -> None:
    written = resolved_yaml(load("source: {path: 's3://me:p@ss@store:9000/b.parquet?sig=xyz', target: y}\n"))
    assert yaml.safe_load(written)["source"]["path"] == "s3://***@store:9000/b.parquet?sig=***"
