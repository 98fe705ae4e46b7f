"""Secret variables: their values appear in no output of a command, wherever a configuration uses them.

A value is hidden as a whole, however it is escaped.
"""

from __future__ import annotations

import html
import io
import json
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

import pytest

import gpupipe as gp
from gpupipe.backends.stage import Place
from gpupipe.cli import main
from gpupipe.config import load_config, resolved_yaml
from gpupipe.config.redaction import Redactor
from gpupipe.errors import ConfigError, DataError
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.timeline import Timeline

CONFIG = """
name: "x-${TOKEN}"
source: {generate: churn, rows: 400, target: Churn}
features: [drop: "${UNUSED}*"]
models: [logistic_regression]
report: {plots: false}
device: cpu
"""
SECRETS = {"TOKEN": "s3cr3t-token", "UNUSED": "Support"}

VALUES = {
    "token": "gK7vQ2xW9rT4mZ8pL3yB6nC1jF5hD0sA7uE2wQ9kX4zV8bN3mR6tY1gH5jP0cL7dS2fK",
    "hostile": "gK7'v\"Q2x\\W9r\nT4m/Z8p%L3y B6n+C1j]: {F5h#",
    "digits": "4815162342108947311656208391540276130958",
}
TABLE, MODEL = "source: {path: T.csv, target: y}\n", "models: [logistic_regression]\n"
# Positions of a secret in valid and invalid settings; ${D} is its value as the name of a folder.
PLACES = {
    "name": TABLE + MODEL + "name: 'run_${Z}'",
    "seed": TABLE + MODEL + "seed: ${Z}00000",
    "device": TABLE + MODEL + "fallback: 'x${Z}'",
    "path": MODEL + "source: {path: '${Z}', target: y}",
    "path, inside": MODEL + "source: {path: '/none/db_${Z}_x.csv', target: y}",
    "path, glob": MODEL + "source: {path: '/none/a${Z}/*.csv', target: y}",
    "path, protocol": MODEL + "source: {path: '${Z}x://b/x.csv', target: y}",
    "path, password": MODEL + "source: {path: 'memory://me:${Z}@host/x.csv', target: y}",
    "path, right": MODEL + "source: {path: '${D}/T.csv', target: y}",
    "format": MODEL + "source: {path: T.csv, target: y, format: '${Z}'}",
    "target": MODEL + "source: {path: T.csv, target: 'a${Z}b'}",
    "positive": MODEL + "source: {path: T.csv, target: y, positive: '${Z}'}",
    "columns": MODEL + "source: {path: T.csv, target: y, columns: ['a', 'x_${Z}']}",
    "drop": MODEL + "source: {path: T.csv, target: y, drop: ['${Z}']}",
    "where, a value": MODEL + "source: {path: T.csv, target: y, where: \"c == '${Z}'\"}",
    "where": MODEL + "source: {path: T.csv, target: y, where: '${Z}'}",
    "schema": MODEL + "source: {path: T.csv, target: y, schema: {a: '${Z}'}}",
    "schema, format": MODEL + "source: {path: T.csv, target: y, schema: {c: {kind: datetime, format: '${Z}'}}}",
    "delimiter": MODEL + "source: {path: T.csv, target: y, csv: {delimiter: '${Z}'}}",
    "encoding": MODEL + "source: {path: T.csv, target: y, csv: {encoding: '${Z}'}}",
    "null values": MODEL + "source: {path: T.csv, target: y, csv: {null_values: ['${Z}']}}",
    "prepare": MODEL + "source: {path: T.csv, target: y, prepare: '/none/${Z}.py:f'}",
    "cache": MODEL + "source: {path: T.csv, target: y, cache: '/dev/null/${Z}'}",
    "generate": MODEL + "source: {generate: '${Z}', target: y}",
    "tables, path": MODEL + TABLE + "tables: {o: {path: '/none/${Z}', on: a, cardinality: one_to_one}}",
    "tables, on": MODEL + TABLE + "tables: {o: {path: T.csv, on: '${Z}', cardinality: one_to_one}}",
    "tables, prefix": MODEL + TABLE + "tables: {o: {path: T.csv, on: a, cardinality: many_to_one, prefix: '${Z}'}}",
    "split, group": MODEL + TABLE + "split: {group: 'g ${Z}'}",
    "split, size": MODEL + TABLE + "split: {test_size: '${Z}'}",
    "metric": MODEL + TABLE + "evaluate: {metrics: ['${Z}']}",
    "threshold": MODEL + TABLE + "evaluate: {threshold: '${Z}'}",
    "op, column": MODEL + TABLE + "features: [standardize: ['${Z}']]",
    "op, glob": MODEL + TABLE + "features: [standardize: ['${Z}*']]",
    "op": MODEL + TABLE + "features: ['${Z}']",
    "op, new name": MODEL + TABLE + "features: [arithmetic: {difference: [a, b], as: 'x_${Z}'}]",
    "op, constant": MODEL + TABLE + "features: [impute: {columns: c, strategy: constant, value: '${Z}'}]",
    "op, formula": MODEL + TABLE + "features: [expression: {expressions: {q: 'a + ${Z}'}}]",
    "kernel": MODEL + TABLE + "features: [kernel: {use: '/none/${Z}.py:f', inputs: [a]}]",
    "model": TABLE + "models: ['${Z}']",
    "model, label": TABLE + "models: [{logistic_regression: {}, as: 'm_${Z}'}]",
    "model, word": TABLE + "models: [{logistic_regression: {penalty: '${Z}'}}]",
    "estimator": TABLE + "models: [estimator: {use: '/none/${Z}.py:f'}]",
    "limit": TABLE + MODEL + "limits: {memory: 'x${Z}'}",
    "cluster": TABLE + MODEL + "cluster: {scheduler: 'tcp://${Z}:8786', deadline: 0.3}",
    "cluster, file": TABLE + MODEL + "cluster: {scheduler: '/none/${Z}'}",
    "output": TABLE + MODEL + "output: 'out_${D}'",
    "output, wrong": TABLE + MODEL + "output: '/dev/null/${Z}'",
    "rule, set": TABLE + MODEL + "data: {c: {set: ['${Z}', u, v, w]}}",
    "rule, regex": TABLE + MODEL + "data: {c: {regex: '(${Z}'}}",
    "a section": MODEL + "source: '${Z}'",
    "a word instead of a section": TABLE + MODEL + "name: {x: '${Z}'}",
}
SETTINGS = "device: cpu\nreport: {plots: false}\n"


def escaped(value: str) -> set[str]:
    """Return a value as messages and files may have it, by the escapes of the standard library."""
    texts = {value, repr(value)[1:-1], repr(f"'{value}")[2:-1], json.dumps(value)[1:-1], html.escape(value)}
    return texts | {quote(value), quote(value, safe=""), quote_plus(value), unquote(value), ascii(value)[1:-1]}


def leaked(value: str, text: str) -> list[str]:
    """Return the forms of a value that are in a text."""
    return sorted(form for form in escaped(value) if form.lower() in text.lower())


def shown_below(folder: Path) -> Iterator[str]:
    """Yield the name and the content of everything below a folder."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder))
        if path.is_file():
            yield path.read_bytes().decode("utf-8", "replace")


def write_table(path: Path) -> None:
    draw = random.Random(1)
    rows = [f"{draw.random():.3f},{draw.randint(0, 9)},{draw.choice('uvw')},{draw.choice('01')}" for _ in range(200)]
    path.write_text("\n".join(["a,b,c,y", *rows]) + "\n")


@pytest.mark.parametrize(
    "value",
    [pytest.param(value, id=name, marks=[pytest.mark.nightly] * (name != "hostile")) for name, value in VALUES.items()],
)
@pytest.mark.parametrize("place", PLACES)
def test_no_command_shows_a_secret(
    place: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = value.replace("/", "_")
    monkeypatch.setenv("Z", value)
    monkeypatch.setenv("D", folder)
    Path(folder).mkdir()
    write_table(Path("T.csv"))
    write_table(Path(folder, "T.csv"))
    Path("c.yaml").write_text(SETTINGS + PLACES[place] + "\n")
    code = main(["--debug", "run", "c.yaml"])
    assert code in (0, 2, 3, 4, 5)
    out, err = capsys.readouterr()
    assert leaked(value, out + err) == []
    for output in tmp_path.iterdir():
        if output.name not in (folder, "T.csv", "c.yaml"):
            assert leaked(value, "\n".join(shown_below(output))) == []
    if code == 0:
        assert main(["gpus", "c.yaml", "--gpu", "l4"]) == main(["gpus", "c.yaml", "--gpu", "l4", "--json"]) == 0
        assert main(["plan", "c.yaml"]) == main(["plan", "--json", "c.yaml"]) == main(["check", "c.yaml"]) == 0
        assert leaked(value, "".join(capsys.readouterr())) == []


def test_no_file_of_a_run_and_no_line_of_the_console_has_a_secret(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    err = io.StringIO()
    config = load_config(tmp_path / "c.yaml", environment=SECRETS)
    with Console(err=err) as console:
        run = run_pipeline(config, tmp_path / "run", [console])
    shown = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert len(shown) > 8
    assert not [path for path, content in shown.items() if b"s3cr3t" in content]
    assert "s3cr3t" not in err.getvalue()
    assert "${TOKEN}" in shown[run.path / "config.yaml"].decode()
    assert load_config(run.path / "config.yaml", environment=SECRETS) == config


def test_names_keep_the_text_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "c.yaml", ["output=" + str(tmp_path / "runs")], environment=SECRETS)
    run = run_pipeline(config)
    assert config.name == "x-${TOKEN}"
    assert run.path.name.startswith("x-TOKEN-2")
    assert json.loads((run.path / "model" / "manifest.json").read_text())["name"] == "x-${TOKEN}"
    assert "<h1>x-${TOKEN}" in (run.path / "report.html").read_text()


def test_the_run_directory_is_used_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("Z", VALUES["digits"])
    write_table(Path("T.csv"))
    Path("c.yaml").write_text(SETTINGS + TABLE + MODEL + "output: 'out_${Z}'\n")
    assert main(["run", "--json", "c.yaml"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "/out_${Z}/c-" in document["run_directory"]
    run = gp.Pipeline.from_yaml("c.yaml").run()
    assert run.path.is_relative_to(tmp_path / f"out_{VALUES['digits']}")
    assert leaked(VALUES["digits"], f"{run!r}{run._repr_html_()}") == []


def test_an_error_of_a_run_has_the_name_of_a_variable_and_not_its_value(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("source: {path: '${WHERE}/none.csv', target: y}\ndevice: cpu\n")
    config = load_config(tmp_path / "c.yaml", environment={"WHERE": f"{tmp_path}/s3cr3t"})
    with pytest.raises(DataError) as caught:
        run_pipeline(config, tmp_path / "run")
    assert "s3cr3t" not in f"{caught.value} {caught.value.what} {caught.value.where} {caught.value.fix}"
    assert "${WHERE}" in str(caught.value)
    assert "s3cr3t" not in resolved_yaml(config)


def test_a_note_has_no_password_of_a_url() -> None:
    timeline = Timeline(hide=Redactor({"KEY": "s3cr3t"}).hide)
    with timeline.stage("read", Place("cpu", "s3cr3t")) as stage:
        stage.note("read s3://me:p@ss@store/a.csv?X-Amz-Signature=abc&x=1 with s3cr3t; 12345 rows")
    (told,) = (note.text for note in timeline.all_notes())
    assert told == "read s3://***@store/a.csv?X-Amz-Signature=***&x=*** with ${KEY}; 12345 rows"
    assert timeline.to_json()["stages"][0]["reason"] == "${KEY}"


def test_python_gets_errors_and_displays_without_the_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Z", VALUES["token"])
    (tmp_path / "c.yaml").write_text(SETTINGS + MODEL + "source: {path: '/none/${Z}/a.csv', target: y}\n")
    pipe = gp.Pipeline.from_yaml(tmp_path / "c.yaml")
    for method in (pipe.run, pipe.plan, pipe.features, pipe.tensors):
        with pytest.raises(DataError, match=r"\$\{Z\}") as caught:
            method()
        assert leaked(VALUES["token"], "".join(traceback.format_exception(caught.value))) == []
    assert leaked(VALUES["token"], f"{pipe!r}{pipe.config!r}{pipe._repr_html_()}") == []
    with pytest.raises(ConfigError) as wrong:
        gp.Pipeline.from_yaml(tmp_path / "c.yaml", overrides=["seed='${Z}'"])
    assert "expected a whole number, got '${Z}'" in str(wrong.value)
    assert leaked(VALUES["token"], "".join([*wrong.value.problems, *traceback.format_exception(wrong.value)])) == []


def test_words_of_gpupipe_are_kept_where_secrets_are_masked(tmp_path: Path) -> None:
    text = "models: ['${MODEL}']\nsource: {path: '/none/${TOKEN}', format: '${FORMAT}', target: y}\n"
    (tmp_path / "c.yaml").write_text(SETTINGS + text)
    environment = {"MODEL": "xgboost", "FORMAT": "parquet", "TOKEN": "s3cr3t-token"}
    hide = load_config(tmp_path / "c.yaml", environment=environment).origin.redactor.hide
    assert hide("xgboost of parquet s3cr3t-token") == "xgboost of parquet ${TOKEN}"


def test_a_setting_that_the_model_would_keep_may_be_opened(tmp_path: Path) -> None:
    write_table(tmp_path / "T.csv")
    (tmp_path / "c.yaml").write_text(
        SETTINGS + MODEL + f"source: {{path: '{tmp_path}/T.csv', target: y}}\n"
        "data: {c: {set: ['${OPEN!}', u, v, '${CLOSED}'], otherwise: '${WORD}'}, a: {range: [null, '${DATE}']}}\n"
        "features: [{impute: {columns: ['${COLUMN}'], value: '${CLOSED}', strategy: '${CONSTANT}'}}]\n"
    )
    environment = {"OPEN": "w", "CLOSED": "opensesame", "WORD": "warn", "DATE": "2031-01-01", "COLUMN": "column_c"}
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml", environment=environment | {"CONSTANT": "constant"})
    at = f"{tmp_path}/c.yaml"
    what = "the model would contain the value of ${CLOSED}; write ${CLOSED!} to allow it"
    assert caught.value.problems == (
        f"{at}:5:36: data.c.set[3]: {what}",
        f"{at}:6:53: features[0].impute.value: {what}",
    )


HOOK = """
import logging, os, warnings

def fail(table):
    logging.error("connecting with %r", os.environ["Z"])
    warnings.warn(f"slow: {os.environ['Z']}")
    try:
        raise OSError(2, "no such file", os.environ["Z"])
    except OSError as error:
        raise RuntimeError({"key": os.environ["Z"]}) from error
"""


def test_a_real_process_shows_no_secret_of_libraries_with_debug(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(HOOK)
    write_table(tmp_path / "T.csv")
    text = "source: {path: T.csv, target: y, prepare: 'hook.py:fail', where: \"c != '${Z}'\"}\n"
    (tmp_path / "c.yaml").write_text(SETTINGS + MODEL + text)
    value = VALUES["token"]
    done = subprocess.run(
        [sys.executable, "-m", "gpupipe", "--debug", "run", "c.yaml"],
        cwd=tmp_path, env=os.environ | {"Z": value}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert leaked(value, done.stdout + done.stderr) == []
    for line in ("connecting with '${Z}'", "slow: ${Z}", "[Errno 2] no such file: '${Z}'", "{'key': '${Z}'}"):
        assert line in done.stderr
