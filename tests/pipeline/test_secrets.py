"""What came from the environment is in no file of a run, on no console and in no error."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpupipe.config import load_config, resolved_yaml
from gpupipe.errors import DataError
from gpupipe.pipeline.console import Console
from gpupipe.pipeline.run import run_pipeline
from gpupipe.pipeline.timeline import Timeline

CONFIG = """
name: "x-${TOKEN}"
source: {generate: churn, rows: 400, target: Churn}
features: [drop: "${UNUSED}*"]
models: [logistic_regression]
report: {plots: false}
device: cpu
"""
SECRETS = {"TOKEN": "s3cr3t-token", "UNUSED": "Support"}


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


def test_an_error_of_a_run_has_the_name_of_a_variable_and_not_its_value(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("source: {path: '${WHERE}/none.csv', target: y}\ndevice: cpu\n")
    config = load_config(tmp_path / "c.yaml", environment={"WHERE": f"{tmp_path}/s3cr3t"})
    with pytest.raises(DataError) as caught:
        run_pipeline(config, tmp_path / "run")
    assert "s3cr3t" not in f"{caught.value} {caught.value.what} {caught.value.where} {caught.value.fix}"
    assert "${WHERE}" in str(caught.value)
    assert "s3cr3t" not in resolved_yaml(config)


def test_a_note_has_no_password_of_a_url() -> None:
    from gpupipe.config.borrowed import Borrowed

    timeline = Timeline(hide=Borrowed({"KEY": "s3cr3t", "N": "12345"}).hide)
    with timeline.stage("read", device="cpu", reason="s3cr3t") as stage:
        stage.note("read s3://me:p@ss@store/a.csv?X-Amz-Signature=abc&x=1 with s3cr3t; 12345 rows, as s3cr3ts")
    (told,) = (note.text for note in timeline.all_notes())
    assert told == "read s3://***@store/a.csv?X-Amz-Signature=***&x=*** with ${KEY}; 12345 rows, as s3cr3ts"
    assert timeline.to_json()["stages"][0]["reason"] == "${KEY}"
