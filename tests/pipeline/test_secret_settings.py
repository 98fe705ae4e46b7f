"""Every text setting with a value from the environment: no output has the value, or the setting is refused.

The settings are those of the classes of the configuration. A new one needs a place in `secret_documents`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.config import load_config
from gpupipe.config.trackers import TrackSettings
from gpupipe.errors import ConfigError
from gpupipe.trackers.connection import TrackerConnection
from tests.pipeline.secret_documents import DOCUMENTS, NIGHTLY, read_document, write_inputs
from tests.pipeline.text_settings import find, is_public, setting_of, text_settings, texts_of, with_texts

KINDS = {
    "word": "albatrosses",
    "punctuation": 'jack\'daws & "magpies" <b>; 50 %',
    "url": "https://moorhen:r4ven%21@lapwing.example/a?sig=b1ttern",
    "path": "/nightjar/wood pigeon.d/hoopoe",
    "unicode": "Säbelschnäbler ΑΛΚΥΩΝ 翡翠鳥",
}
FAILING = {
    "DuckDB": 5,
    "named catalog": 5,
    "catalog": 5,
    "cluster": 4,
    "local cluster": 2,
}  # exit codes; without Bokeh: 2
SENT: list[Mapping[str, Any]] = []


def test_every_text_setting_is_in_a_document() -> None:
    known = text_settings()
    used = {setting_of(path, known) for name in DOCUMENTS | NIGHTLY for path in texts_of(read_document(name))}
    assert known - used == set()


@pytest.mark.parametrize("name", [*DOCUMENTS, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)])
def test_no_output_has_a_value(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown, inputs = write_inputs(tmp_path), {path.name for path in tmp_path.iterdir()}
    if name == "Delta table":
        pytest.importorskip("deltalake").write_deltalake("kiwi_table", pd.read_csv("heron_rows.csv", sep=";"))
        inputs.add("kiwi_table")
    variables = _write_with_variables(name, monkeypatch)
    _record_trackers(monkeypatch)
    code = main(["--debug", "run", "c.json"])
    outputs = [path for path in tmp_path.iterdir() if path.name not in inputs | {"c.json"}]
    assert code == FAILING.get(name, 0)
    if code == 0:
        done = next(path.parent for folder in outputs for path in folder.rglob("run.json"))
        for command in (["plan"], ["plan", "--json"], ["check"], ["check", "--no-data"], ["gpus", "--gpu", "l4"]):
            assert main([*command, "c.json"]) == 0
        shutil.copytree(done, done.with_name("again"))
        with monkeypatch.context() as patch:
            patch.chdir(done.parent)
            assert main(["runs", "."]) == main(["compare", done.name, "again"]) == 0
    pipe = gp.Pipeline.from_yaml("c.json")
    streams = capsys.readouterr()
    others = {
        "stdout": streams.out, "stderr": streams.err,
        "a tracker": json.dumps([message for message in SENT if message["do"] != "files"]),
        "Python": f"{pipe!r}{pipe.config!r}{pipe._repr_html_()}",
    }  # fmt: skip
    texts = {text: variable for text, variable in variables.items() if not is_public(text, shown)}
    assert texts
    for folder in outputs:  # the path of an output is a setting
        assert find(texts, folder) == {}
    assert find(texts, tmp_path / "none", others) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*DOCUMENTS, *NIGHTLY])
def test_no_output_has_a_value_that_one_setting_has_alone(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most of these values are wrong for their setting, so this is about errors too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("Z", KINDS[kind])
    _record_trackers(monkeypatch)
    write_inputs(tmp_path)
    leaks = {}
    for i, own in enumerate(texts_of(read_document(name))):

        def replace(path: tuple[str, ...], text: str, own: tuple[str, ...] = own) -> str:
            return "${Z}" if path == own else text

        Path("c.json").write_text(json.dumps(with_texts(read_document(name), replace)))
        output = tmp_path / f"run_{i}"
        assert main(["--debug", "run", "c.json", "-o", str(output)]) in (0, 2, 3, 4, 5)
        streams = capsys.readouterr()
        sent = json.dumps([message for message in SENT if message["do"] != "files"])
        if found := find({KINDS[kind]: kind}, output, {"stdout": streams.out, "stderr": streams.err, "sent": sent}):
            leaks[".".join(own)] = found
        SENT.clear()
    assert leaks == {}


def _write_with_variables(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write the document with a variable for each text, and return the variables by text.

    Texts that the configuration refuses, because the model or a tracker would contain them, are written literally.
    """
    refused = set[tuple[str, ...]]()
    variables = dict[str, str]()
    paths = list[tuple[str, ...]]()

    def replace(path: tuple[str, ...], text: str) -> str:
        paths.append(path)
        return text if path in refused else f"${{{variables.setdefault(text, f'S{len(variables):03}_')}}}"

    while True:
        variables.clear()
        paths.clear()
        lines = json.dumps(with_texts(read_document(name), replace), indent=1, ensure_ascii=False).splitlines()
        Path("c.json").write_text("\n".join(lines))
        for text, variable in variables.items():
            monkeypatch.setenv(variable, text)
        try:
            load_config("c.json")
        except ConfigError as error:
            numbers = [int(found[1]) for it in error.problems if (found := _REFUSED.match(it))]
            assert numbers, error
            at = iter(paths)
            path_of = {i: next(at) for i, line in enumerate(lines, 1) if line.endswith(('"', '",'))}
            refused |= {path_of[number] for number in numbers}
        else:
            return variables


_REFUSED = re.compile(r"c\.json:(\d+):.* would contain the values? of .*; write \$\{\w+!\}")


def _record_trackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record what trackers would be sent, without their libraries."""
    SENT.clear()
    monkeypatch.setattr(TrackSettings, "absences", lambda _: {})
    monkeypatch.setattr(TrackerConnection, "connect", lambda *_: None)
    monkeypatch.setattr(TrackerConnection, "send", lambda _, message: SENT.append(message))


def test_labels_are_as_written_and_names_on_a_tracker_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        'source: {generate: churn, target: Churn}\nname: "n ${Z}"\nreport: {title: "Churn ${Z}"}\n'
        'models: [{xgboost: {}, as: "m ${Z}"}]\ntrack: {mlflow: "http://h", tags: {owner: "${Z} & ${Y!}"}}\n'
    )
    environment = {"Z": "razorbill", "Y": "puffin"}
    config = load_config(tmp_path / "c.yaml", environment=environment)
    assert (config.name, config.report.title, config.models[0].label) == ("n ${Z}", "Churn ${Z}", "m ${Z}")
    assert config.track.tags == {"owner": "${Z} & puffin"}
    for name in ("experiment", "wandb"):
        override = f"track.{name}='of ${{Z}}'"
        with pytest.raises(ConfigError, match="the tracker would contain") as caught:
            load_config(tmp_path / "c.yaml", [override], environment=environment)
        assert "write ${Z!} to allow it" in caught.value.problems[0]
        opened = load_config(tmp_path / "c.yaml", [override.replace("Z", "Z!")], environment=environment)
        assert getattr(opened.track, name) == "of razorbill"
