"""Load a file into a configuration, or report all of its errors."""

from __future__ import annotations

import gzip
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.config import Config, load_config, parse_config
from gpupipe.errors import ConfigError

Load = Callable[..., Config]
Problems = Callable[..., Sequence[str]]


def test_a_source_is_all_that_a_configuration_needs(load: Load) -> None:
    config = load("")
    assert (config.name, config.seed, config.device, config.output) == ("c", 0, "auto", "runs/")
    assert config.source.target == "churned"
    assert config.models == ()
    assert [type(op).__name__ for op in config.features] == ["Auto"]
    assert config.features[0].columns == "@all"  # type: ignore[attr-defined]
    assert config.origin.path is not None and config.origin.path.name == "c.yaml"


def test_five_errors_are_reported_together_in_file_order(problems: Problems) -> None:
    text = """\
nmae: churn
source:
  generate: churn
  target: churned
seed: seven
features:
  - impute: {columns: "@numeric", strategy: medain}
  - hash_bukcet: {columns: [plan]}
models:
  - logistic_regression: {c: 1.0}
"""
    assert problems(text) == [
        "c.yaml:1:1: nmae: unknown key; did you mean 'name'?",
        "c.yaml:5:7: seed: expected a whole number, got 'seven'",
        *[line for line in problems(text) if line.startswith("c.yaml:7:45: features[0].impute.strategy: expected ")],
        "c.yaml:8:5: features[1].hash_bukcet: unknown feature op; did you mean 'hash_bucket'?",
        "c.yaml:10:27: models[0].logistic_regression.c: unknown key; did you mean 'C'?",
    ]
    assert len(problems(text)) == 5


def test_errors_of_every_stage_are_reported_together(problems: Problems) -> None:
    found = problems("seed: ${NOPE}\nseed2: 1\nname: a\nname: b\n", "device=tpu", "split.test_size", "outptu=x")
    assert [line.split(": ", 1)[0] for line in found] == [
        "c.yaml:2:7",
        "c.yaml:3:1",
        "c.yaml:5:1",
        "--set split.test_size",
        "--set device=tpu",
        "--set outptu=x",
    ]


def test_a_value_whose_variable_is_unset_is_reported_once(problems: Problems) -> None:
    (line,) = problems("seed: ${NOPE}\n")
    assert line.startswith("c.yaml:2:7: seed: the environment variable NOPE is not set")


def test_an_unreadable_field_is_not_reported_as_missing(problems: Problems) -> None:
    (line,) = problems("source:\n  path: ${NOPE}\n  target: y\n")
    assert line.startswith("c.yaml:2:9: source.path: ")


def test_a_variable_may_replace_a_number(load: Load) -> None:
    assert load("seed: ${SEED:5}\n").seed == 5
    assert load("seed: ${SEED:5}\n", SEED="6").seed == 6


def test_public_tables_without_their_folder_name_the_variable_to_set(problems: Problems) -> None:
    (line,) = problems("source:\n  path: ${GPUPIPE_DATA}/adult.csv\n  target: income\n")
    assert line.startswith("c.yaml:2:9: source.path: the environment variable GPUPIPE_DATA is not set; set it to")
    assert "README" in line


def test_a_missing_source_is_an_error(problems: Problems) -> None:
    assert problems("name: a # no source: here\n") == ["c.yaml:1:1: source: is required"]


def test_a_wrong_device_gets_the_choices(problems: Problems) -> None:
    assert problems("device: gpuu\n") == [
        "c.yaml:2:9: device: expected 'auto', 'cpu' or 'gpu', got 'gpuu'; did you mean 'gpu'?"
    ]


def test_an_initial_pool_above_its_limit_is_an_error_at_the_limit(problems: Problems, load: Load) -> None:
    assert problems("gpu: {initial_pool: 8GiB, limit: 4GiB}\n") == [
        "c.yaml:2:34: gpu.limit: expected at least initial_pool, 8,589,934,592 bytes; got 4,294,967,296"
    ]
    assert load("gpu: {limit: 4GiB, initial_pool: 4GiB}\n").gpu.initial_pool == 4 << 30
    assert load("gpu: {initial_pool: 8GiB}\n").gpu.limit is None


def test_the_error_of_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "churn.yaml").touch()
    with pytest.raises(ConfigError, match="configuration file not found") as caught:
        load_config(tmp_path / "chrun.yaml")
    assert "churn.yaml" in caught.value.fix
    assert caught.value.exit_code == 2


def test_a_missing_file_without_similar_names_suggests_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config("nowhere/chrun.yaml")
    assert "gpupipe init" in caught.value.fix


def test_a_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got the folder"):
        load_config(tmp_path)
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "a.yaml")


def test_data_next_to_the_configuration_is_found_from_anywhere(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    assert load("source: {path: a.csv, target: y}\n").source.path == str(tmp_path / "a.csv")


def test_windows_line_endings_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes("\ufeffsource:\r\n  generate: churn\r\n  target: churned\r\n".encode())
    assert load_config(tmp_path / "a.yaml").source.target == "churned"


def test_a_mapping_is_accepted_as_a_configuration() -> None:
    config = parse_config({"source": {"generate": "churn", "target": "churned"}, "model": "xgboost"}, ["seed=3"])
    assert (config.name, config.seed, config.models[0].name) == ("pipeline", 3, "xgboost")


def test_errors_in_a_mapping_have_paths() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"source": {"generate": "churn", "targte": "churned"}, "features": [{"standardize": [1]}]})
    assert caught.value.problems == (
        "source.targte: unknown key; did you mean 'target'?",
        "features[0].standardize[0]: expected text, got 1",
    )


def test_very_many_errors_fit_one_screen() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"source": {"generate": "churn"}, "features": [{"no_such": "tenure"}] * 50})
    *shown, rest = caught.value.problems
    assert "features[0].no_such: unknown feature op" in shown[0] and rest == f"and {50 - len(shown)} more"
    assert sum(1 + len(line) // 160 for line in shown) <= 30


def test_a_configuration_cannot_be_changed(load: Load) -> None:
    with pytest.raises(Exception, match="frozen"):
        load("").seed = 5  # type: ignore[misc]


def test_identifiers_are_not_read_unless_they_are_keys_or_the_split_needs_them() -> None:
    source = {"path": "a.csv", "target": "y", "drop": ["note"], "id": ["a", "b", "c", "d"]}
    tables = {"t": {"path": "t.csv", "on": {"left": "a", "right": "k"}, "cardinality": "one_to_many"}}
    lag = {"lag": {"key": "b", "time": "at", "columns": "x"}}
    config = parse_config({"source": source, "tables": tables, "split": {"group": "c"}, "features": [lag]})
    assert config.source.drop == ("note", "d") and config.source.id == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("target: left", "did you mean source.target?"),
        ("cv: 5", "did you mean split.cv?"),
        ("metrics: [roc_auc]", "did you mean evaluate.metrics?"),
        ("time: at", "did you mean split.time or limits.time?"),
        ("sead: 7", "did you mean 'seed'?"),
    ],
)
def test_a_key_of_a_section_at_the_top_names_the_section(problems: Problems, key: str, hint: str) -> None:
    (problem,) = problems(f"{key}\n")
    assert problem.startswith("c.yaml:") and problem.endswith(hint)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("source: people.csv\n", "write source: {path: customers.csv, target: churned}"),
        ("features: {standardize: a}\n", "write each op as an item of a list, as in `- standardize: [age]`"),
        ("split: {column: part}\n", "write column: {name: part, test: [test]}"),
    ],
)
def test_a_section_in_another_form_shows_how_it_is_written(problems: Problems, text: str, form: str) -> None:
    (problem,) = problems(text)
    assert "expected a" in problem and problem.endswith(form)


@pytest.mark.parametrize(
    "name",
    ["rows.csv", "rows.tsv.gz", "rows.jsonl", "rows.orc", "packed", "columns", "parts", "two words.csv",
     "absent.parquet", "https://example.org/rows.csv?a", "s3://bucket/rows"],
)  # fmt: skip
def test_a_table_instead_of_a_configuration_is_for_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    pq.write_table(table, "columns")
    (tmp_path / "packed").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    for file in ("rows.csv", "two words.csv", "parts/year=1/rows.csv"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError) as error:
        load_config(Path(name))
    assert f"got a table: {name}" in error.value.what
    assert f"`gpupipe init {shlex.quote(name)} --target COLUMN`" in error.value.fix


@pytest.mark.parametrize("content", [b"a,b\n1,2\n3,4\n", b'{"a": 1}\n{"a": 2}\n', b"[1, 2]", b"caf\xe9,b\n1,2\n"])
def test_other_text_without_a_suffix_may_be_a_table(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "rows")
    assert f"if it is a table: write a configuration for it: `gpupipe init {tmp_path}/rows" in error.value.fix
    (tmp_path / "rows.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "rows.yaml")
    assert "got a table" not in str(error.value)


def test_in_python_a_table_is_for_pipeline(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError) as error:
        gp.run(tmp_path / "rows.csv")
    assert error.value.fix == f'use gp.Pipeline("{tmp_path}/rows.csv", target="COLUMN")'
