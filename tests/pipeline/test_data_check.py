"""A configuration checked against rows: all errors together, with their locations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gpupipe import Pipeline
from gpupipe.config import load_config
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.plan import data_check
from gpupipe.plan.data_check import DataCheck, check_data

SOURCE = "source: {path: people.csv, target: left, positive: 'yes', drop: [id]}\n"
MODELS = "models: [logistic_regression]\n"
N_ROWS = 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a table of customers and one of their orders."""
    draw = random.Random(7)
    rows = ["id,age,income,city,plan,joined,note,left"]
    for i in range(N_ROWS):
        joined = f"{draw.randint(1, 12):02}/{draw.randint(1, 28):02}/2011"
        city, plan, left = draw.choice("ABC"), draw.choice(["basic", "pro"]), draw.choice(["yes", "no"])
        rows.append(f"c{i},{draw.randint(18, 90)},{draw.random() * 1e4:.2f},{city},{plan},{joined},note {i},{left}")
    (tmp_path / "people.csv").write_text("\n".join(rows))
    orders = [f"c{draw.randrange(N_ROWS)},2024-01-{draw.randint(1, 28):02},{draw.random():.3f}" for _ in range(400)]
    (tmp_path / "orders.csv").write_text("\n".join(["id,at,spend", *orders]))
    return tmp_path


def checked(folder: Path, text: str) -> DataCheck:
    (folder / "c.yaml").write_text(text)
    return check_data(load_config(folder / "c.yaml"))


def mistakes(folder: Path, text: str, kind: type[Exception] = ConfigError) -> list[str]:
    """Return the lines of the error, each from its line and column on."""
    with pytest.raises(kind) as caught:
        checked(folder, text)
    assert type(caught.value) is kind
    return [line.removeprefix(f"{folder / 'c.yaml'}:") for line in str(caught.value).splitlines()[1:]]


def test_a_valid_configuration_reports_the_planned_training(folder: Path) -> None:
    found = checked(folder, SOURCE + "features: [{encode: '@categorical'}]\n" + MODELS)
    assert (found.n_rows, found.is_whole) == (N_ROWS, True)
    assert found.goal is not None and found.goal.labels == ("no", "yes")
    assert len(found.features["dense"].names) == 7  # age and income, 3 cities and 2 plans
    dates, notes = found.warnings
    assert dates.startswith("text column 'joined' dropped; it contains dates: declare")
    assert notes.startswith("text column 'note' dropped; derive features with `- text_vectors: note`")


OP = [
    ("standardize: [age, incom]", "3:24: features[0].standardize[1]: no column 'incom'; did you mean 'income'?"),
    ("standardize: [age, plan]", "3:24: features[0].standardize[1]: standardize takes numeric columns; 'plan' is c"),
    ("encode: [plan, left]", "3:20: features[0].encode[1]: 'left' cannot be an input of encode: it is the target"),
    ("log1p: 'usage_*'", "3:12: features[0].log1p: no column matches 'usage_*'; the columns are age, income"),
    ("log1p: 'lef*'", "3:12: features[0].log1p: 'lef*' matches only 'left', which cannot be an input of log1p"),
    ("hash_bucket: id", "3:18: features[0].hash_bucket: 'id' cannot be an input of hash_bucket: source.drop drops it"),
    ("datetime_parts: joined", "'joined' is text; declare source.schema: {joined: {kind: datetime, format: '%m/%d/%Y'"),
    ("arithmetic: {ratio: [age, Income]}", "3:31: features[0].arithmetic.ratio[1]: no column 'Income'; did you mean"),
    ("arithmetic: {ratio: [age, income], as: age}", "3:44: features[0].arithmetic.as: column 'age' already exists"),
    ("lag: {key: id, time: age, columns: income}", "3:16: features[0].lag.key: the table has no column 'id'; remove"),
    ("text_hash: nte", "3:16: features[0].text_hash: no column 'nte'; did you mean 'note'?"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "message"), OP, ids=[op for op, _ in OP])
def test_an_op_that_does_not_fit_the_columns(folder: Path, op: str, message: str) -> None:
    (line,) = mistakes(folder, f"{SOURCE}features:\n  - {op}\n{MODELS}")
    assert message in line


SETTING = [
    ("evaluate: {metrics: [rmse]}", "2:12: evaluate.metrics: metrics that are not available for the task binary: rmse"),
    ("models: [knn, ridge]", "2:15: models[1]: ridge cannot learn this task"),
    ("split: {group: region}", "2:16: split.group: no column 'region'"),
    ("split: {group: id}", "2:16: split.group: no column 'id'; remove 'id' from source.drop"),
    ("split: {time: joined}", "numeric column, got 'joined', which is text; declare source.schema: {joined:"),
    ("split: {column: {name: city, test: [D]}}", "column 'city' has no level D; its levels are A, B, C"),
    ("split: {cv: 180}", "180 folds need at least 180"),
    ("data: {plna: {nulls: false}}", "2:8: data.plna: no column 'plna' for a rule; did you mean 'plan'?"),
    ("data: {age: {range: [0, 20]}}", "1 rule of `data:` violated"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "message"), SETTING, ids=[setting for setting, _ in SETTING])
def test_a_setting_that_does_not_fit_the_data(folder: Path, setting: str, message: str) -> None:
    kind = SchemaError if "range" in setting else DataError if "cv" in setting else ConfigError
    assert message in mistakes(folder, SOURCE + setting + "\n", kind)[0]


def test_every_error_is_reported_in_file_order(folder: Path) -> None:
    lines = mistakes(
        folder,
        "source: {path: people.csv, target: lft, drop: [idd], schema: {agee: float}}\n"
        "tables: {orders: {path: orders.csv, on: customer, cardinality: one_to_many}}\n"
        "features:\n"
        "  - arithmetic: {ratio: [incom, age], as: share}\n"
        "  - standardize: [share, city]\n"  # errors caused by the line before are not repeated
        "  - target_encode: city\n"  # nor are those caused by the target
        "  - log1p: share\n"
        "split: {group: regoin}\n",
    )
    assert [line.split(": ")[1] for line in lines] == [
        "source.target", "source.drop[0]", "source.schema", "tables.orders.on", "tables.orders.on",
        "features[0].arithmetic.ratio[0]", "split.group",
    ]  # fmt: skip


def test_rows_made_of_events_are_checked(folder: Path) -> None:
    source = "source: {target: gone, entities: {table: orders, as_of: 2024-01-15, label: {none: orders, within: 7d}}}\n"
    tables = "tables: {orders: {path: orders.csv, on: id, time: at, cardinality: one_to_many}}\n"
    found = checked(folder, source + tables + "features: [{rfm: {table: orders, amount: spend}}]\n" + MODELS)
    assert 100 < found.n_rows < N_ROWS and found.goal is not None and found.goal.task == "binary"
    wrong = "split: {time: as_off}\nfeatures: [{rfm: {table: orders, amount: spent}}, {time_since: {table: orders}}]\n"
    assert [line.split(": ")[1] for line in mistakes(folder, source + tables + wrong + MODELS)] == [
        "split.time",
        "features[0].rfm.amount",
    ]


def test_a_filter_of_grouped_events_sees_the_columns_of_the_file(folder: Path) -> None:
    grouped = "group_by: {keys: id, columns: {at: max, spend: sum}}, on: id, time: at, cardinality: one_to_many"
    source = SOURCE.replace("drop: [id]", "id: id")
    tables = "tables: {orders: {path: orders.csv, compute: {double: 2 * spend}, where: %s > 0.1, " + grouped + "}}\n"
    ops = "features: [{rfm: {table: orders, as_of: 2024-02-01, amount: spend}}]\n"
    assert checked(folder, source + tables % "double" + ops + MODELS).n_rows == N_ROWS
    (line,) = mistakes(folder, source + tables % "doubled" + ops + MODELS, SchemaError)
    assert "tables.orders.where: no column 'doubled'" in line


def test_names_that_are_wrong_are_the_error_of_the_run(folder: Path) -> None:
    (line,) = mistakes(folder, SOURCE.replace("left", "lef") + MODELS, SchemaError)
    assert line == "1:36: source.target: no column 'lef'; did you mean 'left'?"


def test_a_label_that_is_absent(folder: Path) -> None:
    (line,) = mistakes(folder, SOURCE.replace("'yes'", "'Yes'") + MODELS)
    assert line == "1:52: source.positive: the positive label 'Yes' is not a value of 'left'; its values are no, yes"


def test_changed_and_dropped_columns_name_the_op(folder: Path) -> None:
    ops = "[{bucketize: {columns: age, bins: 3}}, {drop: income}, {standardize: [age]}, {log1p: income}]"
    first, second = mistakes(folder, f"{SOURCE}features: {ops}\n")
    assert "'age' is categorical since bucketize (features[0]); move standardize before that op" in first
    assert "no column 'income': drop (features[1]) has dropped it; move log1p before drop (features[1])" in second


def test_the_target_may_be_excluded(folder: Path) -> None:
    checked(folder, SOURCE + "features: [{encode: ['@categorical', '!left', '!id']}]\n" + MODELS)


def test_a_key_of_a_history_can_be_named_by_an_op(folder: Path) -> None:
    source = SOURCE.replace("drop: [id]", "schema: {joined: datetime}")
    lag = "{lag: {key: city, time: joined, columns: income}}"
    plain = checked(folder, f"{source}features: [{lag}]\n{MODELS}")
    named = checked(folder, f"{source}features: [{lag}, {{cross: [city, plan]}}]\n{MODELS}")
    assert not [name for name in plain.features["dense"].names if "city" in name]
    assert "city_x_plan=A|pro" in named.features["dense"].names
    (line,) = mistakes(folder, f"{source}features: [{lag}, {{encode: 'cit*'}}]\n{MODELS}")
    assert "'cit*' matches only 'city', which cannot be an input of encode: it is the key of lag" in line


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ("evaluate: {threshold: best_f1}", "evaluate.threshold: best_f1 has no effect"),
        ("evaluate: {calibrate: sigmoid}", "evaluate.calibrate: sigmoid has no effect"),
        ("split: {stratify: true}", "split.stratify: true has no effect"),
        ("split: {cv: 3, test_size: 0.3}", "split.test_size: 0.3 has no effect"),
    ],
)
def test_a_setting_without_effect_is_a_warning(folder: Path, settings: str, warning: str) -> None:
    source = "source: {path: people.csv, target: income, drop: [id, note, joined]}\n"
    (found,) = checked(folder, source + settings + "\n").warnings
    assert found.startswith(warning)


def test_problems_that_other_rows_may_resolve_are_warnings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_check, "SAMPLE_ROWS", 40)
    monkeypatch.setattr(data_check, "MORE_ROWS", 80)
    found = checked(folder, SOURCE.replace("'yes'", "maybe"))
    assert not found.is_whole
    (warning,) = [text for text in found.warnings if "source.positive" in text]
    assert "the positive label 'maybe' is not a value of 'left'" in warning
    assert warning.endswith(f"(in a sample of {found.n_rows} rows)")
    lines = mistakes(folder, SOURCE + "features: [{log1p: agee}]\n")  # whatever other rows hold
    assert "no column 'agee'" in lines[0]


def test_a_file_that_is_absent_says_how_to_check_without(folder: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)no such file.*check --no-data") as caught:
        checked(folder, SOURCE.replace("people", "poeple"))
    assert type(caught.value) is DataError


def test_a_broken_file_is_named_not_its_sample(folder: Path) -> None:
    with (folder / "people.csv").open("a") as file:
        file.write("\nc,1,2\n")
    with pytest.raises(DataError, match=r"people\.csv") as caught:
        checked(folder, SOURCE)
    assert "gpupipe-sample" not in str(caught.value)


def test_run_and_plan_warn_of_the_same_columns_once(folder: Path) -> None:
    text = SOURCE.replace("drop: [id]", "drop: [id, joined]") + "split: {cv: 2}\nevaluate: {importance: false}\n"
    (warning,) = checked(folder, text + MODELS).warnings
    assert warning.startswith("text column 'note' dropped")
    pipeline = Pipeline(load_config(folder / "c.yaml", ["report.enabled=false"]))
    assert pipeline.plan().warnings == (warning,)
    run = pipeline.run(folder / "run")
    stages = json.loads((run.path / "timeline.json").read_text())["stages"]
    assert [note for stage in stages for note in stage["notes"]].count(warning) == 1


def test_an_error_of_the_run_has_its_line_too(folder: Path) -> None:
    (folder / "c.yaml").write_text(f"{SOURCE}features:\n  - log1p: age\n  - encode: [city, paln]\n{MODELS}")
    with pytest.raises(ConfigError, match="no column 'paln'") as caught:
        Pipeline(load_config(folder / "c.yaml")).run(folder / "run")
    where = f"{folder / 'c.yaml'}:4:20: features[1].encode[1]"
    assert caught.value.where == where
    assert str(caught.value).splitlines()[1] == f"  where: {where}"


def test_a_date_that_can_be_read_two_ways_is_refused(folder: Path) -> None:
    dates = [f"0{1 + i % 9}/1{i % 3}/2011" for i in range(9)]
    rows = "\n".join(f"{date},{i},{'yes' if i % 2 else 'no'}" for i, date in enumerate(dates * 4))
    (folder / "people.csv").write_text(f"day,age,left\n{rows}")
    source = "source: {path: people.csv, target: left, schema: {day: %s}}\n" + MODELS
    (mistake,) = mistakes(folder, source % "datetime", SchemaError)
    assert "'01/10/2011' is 10 January 2011 as '%m/%d/%Y' or 1 October 2011 as '%d/%m/%Y'" in mistake
    assert checked(folder, source % "{kind: datetime, format: '%d/%m/%Y'}").warnings == ()


def test_a_key_of_a_table_that_is_dropped_says_where_to_drop_it_instead(folder: Path) -> None:
    tables = "tables: {orders: {path: orders.csv, on: id, cardinality: one_to_many}}\n"
    rfm = "{rfm: {table: orders, time: at, as_of: 2024-02-01, amount: spend}}"
    key, amount = mistakes(folder, f"{SOURCE}{tables}features: [{rfm.replace('spend', 'spent')}]\n{MODELS}")
    assert key == (
        "1:66: source.drop[0]: 'id' is dropped, but tables.orders needs it as its key; remove 'id' from source.drop; "
        "`- drop: id` among the features keeps it out of the models"
    )
    assert "features[0].rfm.amount: table 'orders' has no column 'spent'; did you mean 'spend'?" in amount
    found = checked(folder, f"{SOURCE.replace(', drop: [id]', '')}{tables}features: [{rfm}, {{drop: id}}]\n{MODELS}")
    assert "orders_monetary" in found.features["dense"].names
    assert [text.split("'")[1] for text in found.warnings] == ["joined", "note"]
