"""A script and a notebook as a newcomer writes them: each thing that is dropped or converted is one warning."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from nbclient import NotebookClient

import gpupipe as gp

N_ROWS = 240
N_UNKNOWN = 37
SETTINGS: dict[str, Any] = {"models": ["gaussian_nb"], "report": {"enabled": False}}
SCRIPT = """\
import pandas as pd
import gpupipe as gp

visits = pd.read_csv("visits.csv")
run = gp.Pipeline(visits, target="paid", split=0.25, models=["gaussian_nb"]).run("run")
print(run.metrics["roc_auc"] > 0.5, len(run.notes) > 0)
new = visits.head(40).assign(plan=["gold"] * 5 + ["basic"] * 35)
print(len(run.model.predict(new)))
"""


def visits() -> pd.DataFrame:
    rng = np.random.default_rng(20)
    amount = rng.gamma(2.0, 10.0, N_ROWS)
    paid = np.where(amount > 15, "yes", "no").astype(object)
    paid[:N_UNKNOWN] = None
    times = pd.date_range("2023-03-01", periods=N_ROWS, freq="31h")
    return pd.DataFrame({
        "amount": amount, "plan": rng.choice(["basic", "plus"], N_ROWS), "when": times.strftime("%Y-%m-%d %H:%M"),
        "until": times.strftime("%d.%m.%Y %H:%M"), "price": [f"{value:.2f}".replace(".", ",") for value in amount],
        "code": [f"{value:.4f}" if value > 4 else "?" for value in amount], "paid": paid,
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    visits().to_csv(folder / "visits.csv", index=False)
    (folder / "first.py").write_text(SCRIPT)
    return folder


EXPECTED = {
    "paid": rf"{N_UNKNOWN} rows without a target were dropped",
    "when": r"column 'when': its texts are read as times of ISO 8601; declare schema=\{'when': 'datetime'\}",
    "until": r"text column 'until' dropped; it contains dates: declare schema=.*'%d\.%m\.%Y %H:%M'",
    "price": r"text column 'price' dropped; it contains numbers: .*'decimal': ','",
    "code": r"text column 'code' dropped; its texts are numbers except '\?': .*parse_number",
}
UNSEEN = r"plan: 5 of 40 rows have a level unseen in training \(found 'gold'\)"


def test_a_script_prints_each_warning_once_with_the_line_that_it_is_about(folder: Path) -> None:
    done = subprocess.run([sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True True", "40"]
    of_run = re.findall(r"first\.py:5: RunWarning: (.*)", done.stderr)
    of_prediction = re.findall(r"first\.py:8: PredictionWarning: (.*)", done.stderr)
    assert len(of_run) == len(EXPECTED) and len(of_prediction) == 1
    for pattern in EXPECTED.values():
        assert sum(bool(re.search(pattern, text)) for text in of_run) == 1, pattern
    assert re.search(UNSEEN, of_prediction[0])
    assert done.stderr.count("Warning: ") == len(EXPECTED) + 1  # none of a library, none twice
    notes = gp.load_run(folder / "run").notes
    assert len([note for note in notes if note.level == "warning"]) == len(EXPECTED)
    assert {note.stage for note in notes} >= {"", "read", "features"}


def test_the_command_shows_its_warnings_in_its_log_only(folder: Path) -> None:
    source = {"path": "visits.csv", "target": "paid"}
    (folder / "visits.yaml").write_text(json.dumps({"source": source, **SETTINGS}))
    command = [sys.executable, "-m", "gpupipe", "run", "visits.yaml", "--output", "by_command"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    shown = " ".join((done.stdout + done.stderr).split())
    assert "RunWarning" not in shown and shown.count(f"{N_UNKNOWN} rows without a target were dropped") == 1


def test_a_notebook_shows_each_warning_in_the_progress_of_the_run(folder: Path, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels" / "here"
    kernels.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    lines = SCRIPT.replace('"run"', '"in_notebook"').splitlines()
    cells = [nbformat.v4.new_code_cell("\n".join(part)) for part in (lines[:6], lines[6:], ["run"])]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_name="here", resources={"metadata": {"path": str(folder)}})
    client.create_kernel_manager().kernel_spec_manager.kernel_dirs.append(str(kernels.parent))
    client.execute()
    outputs = [json.dumps(cell.outputs, ensure_ascii=False) for cell in cells]
    plain = text_of(cells[0].outputs)
    assert "RunWarning" not in outputs[0]
    for name in EXPECTED:
        assert plain.count(f"'{name}' dropped") + plain.count(f"'{name}': its texts") == (name != "paid"), name
    assert plain.count(f"{N_UNKNOWN} rows without a target were dropped") == 1
    assert outputs[1].count("PredictionWarning: plan: 5 of 40 rows") == 1
    assert f"{len(EXPECTED)} warnings in `run.notes`" in outputs[2]


def text_of(outputs: Sequence[Any]) -> str:
    return "\n".join(output.get("data", {}).get("text/plain", output.get("text", "")) for output in outputs)


def issued(frame: Any, **settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.Pipeline(frame, **settings).features()
    assert {warning.category for warning in caught} <= {gp.RunWarning}
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


def test_features_warns_of_each_thing_that_a_frame_loses() -> None:
    tags: Any = [["a"]] * N_ROWS
    frame = visits().assign(tags=tags, reply=["N/A" if i % 9 == 0 else f"{i % 3}" for i in range(N_ROWS)])
    frame.insert(0, "Unnamed: 0", range(N_ROWS))
    found = issued(frame, target="paid")
    for pattern in (
        *EXPECTED.values(),
        "'tags' is dropped: no op reads its lists",
        "'reply': 'N/A' read as miss",
        "'Unnamed: 0' is ign",
    ):
        assert sum(bool(re.search(pattern, text)) for text in found) == 1, (pattern, found)
    assert len(found) == len(EXPECTED) + 3
    assert issued(frame[["amount", "plan", "paid"]].dropna(), target="paid") == []


def test_a_frame_of_read_csv_has_the_features_of_its_file(folder: Path) -> None:
    frame = pd.read_csv(folder / "visits.csv")
    settings: dict[str, Any] = {"target": "paid", "drop": ["until", "price", "code"]}
    of_file = gp.Pipeline(str(folder / "visits.csv"), **settings).features()
    of_frame = gp.Pipeline(frame, **settings).features()
    assert of_frame[0].shape[1] > 6  # with those of the time
    np.testing.assert_array_equal(of_frame[0], of_file[0])
    np.testing.assert_array_equal(of_frame[1], of_file[1])


@pytest.mark.parametrize(
    ("change", "settings", "pattern"),
    [
        ({"until": None}, {"schema": {"when": "categorical"}}, "its texts are read as times"),
        ({"when": "x"}, {}, "its texts are read as times"),
    ],
)
def test_texts_that_are_stated_to_be_texts_stay_texts(
    change: dict[str, Any], settings: dict[str, Any], pattern: str
) -> None:
    frame = visits().drop(columns=["until", "price", "code"]).assign(**change)
    assert not any(pattern in text for text in issued(frame, target="paid", **settings))


def test_a_format_of_times_that_is_inferred_is_a_warning() -> None:
    frame = visits()[["amount", "until", "paid"]].dropna()
    (text,) = issued(frame, target="paid", schema={"until": "datetime"})
    assert text.startswith("column 'until': its texts are read as times in the format '%d.%m.%Y %H:%M', the only one")
    stated = {"until": {"kind": "datetime", "format": "%d.%m.%Y %H:%M"}}
    assert issued(frame, target="paid", schema=stated) == []


def test_the_warnings_of_a_run_can_be_errors(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gp.RunWarning)
        with pytest.raises(gp.RunWarning, match="texts are read as times"):
            gp.Pipeline(visits(), target="paid", **SETTINGS).run(tmp_path / "run")
    assert not (tmp_path / "run").exists()  # it stops before any training


def test_a_group_that_the_reader_drops_is_named_with_its_type() -> None:
    table = pa.table({"x": range(20), "y": [0, 1] * 10, "key": [bytes([255] * 70 + [i % 5]) for i in range(20)]})
    with pytest.raises(gp.SchemaError, match=r"column 'key' is dropped: binary values .*\n.*where: split\.group"):
        gp.Pipeline(table, target="y", split={"group": "key"}).features()
