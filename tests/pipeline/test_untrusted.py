"""Tests of untrusted models: same results, and errors if the child process crashes, hangs or sends invalid replies."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import gpupipe as gp
from gpupipe.cli.predict import command
from gpupipe.config import parse_config
from gpupipe.errors import ArtifactError, ConfigError, GpupipeError, SchemaError
from gpupipe.inference.drift.detection import load_reference
from gpupipe.inference.drift.files import describe_reference
from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.untrusted import process as untrusted_process
from gpupipe.inference.untrusted.description import describe
from gpupipe.inference.untrusted.explanations import describe_explanation, explanation_arrays
from gpupipe.inference.untrusted.messages import pack, pack_arrays
from gpupipe.inference.untrusted.model import UntrustedModel
from gpupipe.inference.untrusted.replies import read_counts
from gpupipe.inference.untrusted.worker import ModelWorker
from gpupipe.io.chunks import chunk_stream
from gpupipe.models import Prediction
from gpupipe.pipeline.run import run_pipeline
from gpupipe.user_warnings import PredictionWarning

N = 300
BOMB = """\
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

def make():
    return make_pipeline(PolynomialFeatures(13), GaussianNB())
"""
EVENTS = {"on": {"left": "b", "right": "n"}, "cardinality": "one_to_many"}
FORMULAS = {f"c{i}": "n" for i in range(1001)}
MODELS: dict[str, tuple[str | None, list[Any]]] = {
    "xgboost": ("yes", [{"xgboost": {"n_estimators": 20}}]),
    "hist_gradient_boosting": ("amount", [{"hist_gradient_boosting": {"max_iter": 20}}]),
    "knn": ("group", ["knn"]),
    "mlp": ("yes", [{"mlp": {"epochs": 2}}]),
    "kmeans": (None, ["kmeans"]),
    "pca": (None, ["pca"]),
    "ridge": ("amount", ["ridge"]),  # imports no library, so its child starts fast
    "lasso": ("amount", ["lasso"]),
}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "id": [f"k{i:03d}" for i in range(N)],
        "a": rng.normal(size=N),
        "b": rng.integers(0, 50, N),
        "c": rng.choice(np.array(["x", "y", "z", None]), N),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), unit="D"),
    })  # fmt: skip
    frame["yes"] = np.where(frame["a"] + rng.normal(size=N) > 0, "yes", "no")
    frame["group"] = rng.choice(["u", "v", "w"], N)
    frame["amount"] = frame["a"] * 2 + frame["b"]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrusted")
    table().to_csv(folder / "t.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def trained(folder: Path) -> Callable[[str], Path]:
    """Return a function that returns the run directory of a model of `MODELS`."""

    def train(name: str) -> Path:
        if not (folder / name).exists():
            target, models = MODELS[name]
            drop = [column for column in ("yes", "group", "amount") if column != target]
            source = {"path": str(folder / "t.csv"), "id": "id", "drop": drop}
            settings = {
                "source": source if target is None else {**source, "target": target}, "models": models,
                "device": "cpu", "report": {"plots": False}, "data": {"b": {"range": [0, 60]}},
            }  # fmt: skip
            run_pipeline(parse_config(settings), folder / name)
        return folder / name

    return train


def child_of(model: UntrustedModel) -> int:
    """Return the process id of the child."""
    running = model.process._child._running
    assert running is not None
    return running.process.pid


class InProcessChild:
    """The worker without a process, which makes tests faster."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.worker = ModelWorker()

    def request(self, message: bytes, seconds: float, reply_bytes: int) -> bytes:
        return self.worker.handle(message)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("ridge", "lasso")])
def test_results_equal_those_of_a_trusted_model(
    trained: Callable[[str], Path], folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in ("xgboost", "mlp"):
        monkeypatch.setattr(untrusted_process, "Child", InProcessChild)
    path, csv, frame = trained(name), str(folder / "t.csv"), table()
    halves: list[Any] = [None, 0.5] * (N // 2)
    odd = frame.assign(c="never seen", a=halves)
    trusted = gp.load_model(path, "cpu")
    with gp.load_model(path, untrusted=True) as model:
        for rows in (csv, odd, frame.head(0)):
            one = replace(trusted, warns=False).predict_table(rows, keep=["id"])
            other = replace(model, warns=False).predict_table(rows, keep=["id"])
            assert one.equals(other) and one.schema == other.schema
        np.testing.assert_array_equal(trusted.predict(frame), model.predict(frame))
        with pytest.warns(PredictionWarning, match="every level is unseen in training"):
            model.predict(odd)
        np.testing.assert_array_equal(trusted.transform(csv).view("i4"), model.transform(csv).view("i4"))
        assert model.last_prediction_report == trusted.last_prediction_report
        if trusted.goal.labels:
            np.testing.assert_array_equal(trusted.predict_proba(csv), model.predict_proba(csv))
        if trusted.goal.target and name != "knn":
            few = odd.head(3)
            one, other = (replace(each, warns=False).predict_table(few, explain=2) for each in (trusted, model))
            assert one.equals(other) and other["reason_2"].null_count == 0
            for rows, interactions in ((few, name == "xgboost"), (frame.head(0), False)):
                assert_same_explanation(*(each.explain(rows, interactions=interactions) for each in (trusted, model)))
        assert model.verify() == trusted.verify()
        for rows, by in ((csv, None), (odd, "month:day")):
            assert trusted.drift(rows, by) == model.drift(rows, by)
        for attribute in ("goal", "inputs", "feature_names", "rules", "folder", "_repr_html_"):
            one, other = getattr(trusted, attribute), getattr(model, attribute)
            assert (one() if callable(one) else one) == (other() if callable(other) else other)
        assert repr(model) == f"Untrusted{trusted!r}"
        if trusted.goal.target:
            pd.testing.assert_frame_equal(trusted.importances, model.importances)
        with pytest.raises(SchemaError, match=r"1 rule of the model violated:(.|\n)*100"):
            model.predict(frame.assign(b=100))
        with pytest.raises(SchemaError, match="expected a number in column 'a'; found 'none'"):
            model.predict(frame.assign(a="none"))
        broken = pd.concat([frame.astype({"a": object})] * 2, ignore_index=True)
        broken.loc[N + 7, "a"] = "none"
        monkeypatch.setattr(chunk_stream, "SLICE_CELLS", N * len(model.inputs))
        with pytest.raises(SchemaError, match=f"found 'none' in data row {N + 7}\n") as expected:
            trusted.drift(broken)
        with pytest.raises(SchemaError) as raised:
            model.drift(broken)
        assert str(raised.value) == str(expected.value)


def assert_same_explanation(one: Explanation, other: Explanation) -> None:
    for field in fields(one):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name))


def test_event_tables_are_read_and_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_process, "Child", InProcessChild)
    rng = np.random.default_rng(3)
    day = rng.uniform(0, 180, 900)
    orders = pd.DataFrame({
        "who": rng.integers(0, 60, 900), "at": (pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")).floor("s"),
        "price": rng.gamma(2.0, 10.0, 900).round(2), "n": rng.choice([-1, 1, 2], 900),
    }).sort_values("at", ignore_index=True)  # fmt: skip
    orders.to_parquet(tmp_path / "orders.parquet", index=False)
    events = {
        "path": str(tmp_path / "orders.parquet"), "on": {"left": "customer", "right": "who"}, "time": "at",
        "cardinality": "one_to_many", "where": "n > 0", "compute": {"spend": "n * price"},
    }  # fmt: skip
    label = {"none": "orders", "within": "15d"}
    entities = {"table": "orders", "as_of": ["2024-03-01", "2024-04-01"], "label": label}
    settings = {
        "source": {"entities": entities, "target": "left"}, "tables": {"orders": events}, "device": "cpu",
        "features": [{"rfm": {"table": "orders", "amount": "spend"}}], "models": ["logistic_regression"],
        "split": {"time": "as_of", "cutoff": "2024-04-01"}, "report": {"enabled": False},
        "evaluate": {"importance": False},
    }  # fmt: skip
    path = run_pipeline(parse_config(settings), tmp_path / "run").path
    trusted = gp.load_model(path, "cpu")
    with gp.load_model(path, untrusted=True) as model:
        for given in (orders, str(tmp_path / "orders.parquet")):
            found = model.predict_entities({"orders": given}, "2024-06-01")
            assert found.equals(trusted.predict_entities({"orders": given}, "2024-06-01"))
        rows = pd.DataFrame({"customer": [1, 2]})
        one, other = (each.predict_proba(rows, {"orders": orders}, "2024-06-01") for each in (trusted, model))
        np.testing.assert_array_equal(one, other)
        assert_same_explanation(*(each.explain(rows, {"orders": orders}, "2024-06-01") for each in (trusted, model)))
        dated = rows.assign(as_of=pd.Timestamp("2024-06-01"))
        assert trusted.drift(dated, None, {"orders": orders}) == model.drift(dated, None, {"orders": orders})
        with pytest.raises(ConfigError, match="missing further table 'orders'"):
            model.predict(rows, as_of="2024-06-01")


def run_command(*arguments: Any) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


def test_the_command_writes_the_same_bytes(trained: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    broken = table().astype({"a": object})
    broken.loc[7, "a"], broken.loc[9, "b"] = "much", 99
    broken.to_csv(tmp_path / "new.csv", index=False)
    options = ["--keep", "day", "--on-error", "reject", "--quiet"]
    for i, more in enumerate([[], ["--untrusted", "--limit", "memory=2GiB", "--limit", "time=100"]]):
        out = tmp_path / str(i) / "scores.csv"
        out.parent.mkdir()
        done = run_command(trained("xgboost"), tmp_path / "new.csv", "-o", out, *options, *more)
        assert (done.exit_code, done.output) == (0, "")
    for name in ("scores.csv", "scores.rejected.csv"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()


def test_exceeding_the_memory_limit_exits_with_code_5(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 7)), columns=list("abcdefg"))
    pd.concat([frame] * 20).to_csv(tmp_path / "rows.csv", index=False)
    frame["t"] = ["no", "yes"] * 30
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "bomb.py").write_text(BOMB)
    settings = {
        "source": {"path": str(tmp_path / "t.csv"), "target": "t"}, "report": {"enabled": False}, "device": "cpu",
        "models": [{"estimator": {"use": f"{tmp_path / 'bomb.py'}:make", "view": "codes"}}],
        "evaluate": {"importance": False, "metrics": ["roc_auc"]},
    }  # fmt: skip
    path = run_pipeline(parse_config(settings), tmp_path / "run").path
    out = tmp_path / "scores.csv"
    argv = [sys.executable, "-m", "gpupipe", "predict", str(path), str(tmp_path / "rows.csv"), "-o", str(out)]
    argv += ["--untrusted", "--limit", "memory=512MiB"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "Model error: the untrusted model exceeded its memory limit of 0.50 GiB" in done.stderr
    assert f"where: {path / 'model'}" in done.stderr and "--limit memory=SIZE" in done.stderr
    assert "Traceback" not in done.stderr and not out.exists()


def test_a_crashed_child_raises_an_error_and_is_replaced(trained: Callable[[str], Path], tmp_path: Path) -> None:
    frame, folder = table(), tmp_path / "model"
    shutil.copytree(trained("ridge") / "model", folder)
    with gp.load_model(folder, untrusted=True) as model:
        expected, pid = model.predict(frame), child_of(model)
        os.kill(pid, signal.SIGSEGV)
        with pytest.raises(
            ArtifactError, match=r"the child process of the untrusted model crashed \(SIGSEGV\)"
        ) as error:
            model.predict(frame)
        assert error.value.exit_code == 5 and error.value.where == str(folder)
        np.testing.assert_array_equal(model.predict(frame), expected)
        assert child_of(model) != pid
        with pytest.raises(ConfigError, match="cannot pickle"):
            pickle.dumps(model)

        os.kill(child_of(model), signal.SIGKILL)
        with pytest.raises(
            ArtifactError, match="exceeded its memory limit"
        ):  # the kernel kills with SIGKILL if memory runs out
            model.predict(frame)
        shutil.rmtree(folder)
        shutil.copytree(trained("lasso") / "model", folder)
        with pytest.raises(ArtifactError, match="has changed since it was loaded"):
            model.predict(frame)
        pid = child_of(model)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConfigError, match="the untrusted model is closed"):
        model.predict(frame)


def test_the_child_ends_with_the_last_reference_and_has_a_time_limit(trained: Callable[[str], Path]) -> None:
    model = gp.load_model(trained("ridge"), untrusted=True)
    pid = child_of(model)
    del model
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ArtifactError, match=r"exceeded its limit of 1e-06 s(.|\n)*--limit time="):
        gp.load_model(trained("xgboost"), untrusted=True, limits={"time": 1e-6})  # no reply can be this fast


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limits": {"memory": "1GiB"}}, "limits apply to untrusted models only"),
        ({"untrusted": True, "device": "gpu"}, "untrusted models run on the CPU"),
        ({"untrusted": True, "device": "tpu"}, "unknown device 'tpu'"),
        ({"untrusted": True, "limits": {"cpu": 1}}, "unknown limit 'cpu'"),
        ({"untrusted": True, "limits": {"memory": "1MB"}}, "expected at least 512 MiB"),
        ({"untrusted": True, "limits": {"memory": "much"}}, "expected a size .*, got 'much'"),
        ({"untrusted": True, "limits": {"time": "long"}}, "expected a duration .*, got 'long'"),
        ({"untrusted": True, "limits": {"time": 0}}, "expected seconds"),
        ({"untrusted": True, "limits": "1GiB"}, "expected a dict"),
    ],
)
def test_invalid_settings_are_rejected(trained: Callable[[str], Path], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gp.load_model(trained("ridge"), **settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--limit", "memory=1GiB"], "--limit memory=1GiB requires --untrusted"),
        (["--untrusted", "--cluster", "local"], "--untrusted is not supported with --cluster"),
        (["--untrusted", "--limit", "memory"], "expected NAME=VALUE, got 'memory'"),
    ],
)
def test_incompatible_options_are_usage_errors(options: Sequence[str], message: str, folder: Path) -> None:
    done = run_command(folder / "kmeans", folder / "t.csv", "-o", folder / "x.csv", *options)
    assert isinstance(done.exception, ConfigError | SystemExit) and message in f"{done.exception} {done.output}"


class FakeChild:
    """A child with scripted replies."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self.replies, self.n_closed = list(replies), 0

    def request(self, message: bytes, seconds: float, reply_bytes: int) -> bytes:
        return self.replies.pop(0)

    def close(self) -> None:
        self.n_closed += 1


@pytest.fixture
def with_replies(monkeypatch: pytest.MonkeyPatch, trained: Callable[[str], Path]) -> Callable[..., UntrustedModel]:
    """Return a function that loads a model whose child sends these replies."""

    def load(*replies: bytes) -> UntrustedModel:
        monkeypatch.setattr(untrusted_process, "Child", lambda *arguments, **named: FakeChild(replies))
        return gp.load_model(trained("xgboost"), untrusted=True)

    return load


@pytest.fixture(scope="module")
def valid(trained: Callable[[str], Path]) -> dict[str, Any]:
    """Valid replies: the description of a model, and its prediction for three rows."""
    model = gp.load_model(trained("xgboost"), "cpu")
    rows = table().head(3)
    probability = model.predict_proba(rows)[:, 1]
    described, arrays = pack_arrays(Prediction("binary", probability=probability).arrays)
    assert model.last_prediction_report is not None
    report = model.last_prediction_report.to_json()
    common = {"sha256": model.manifest["manifest_sha256"], "warnings": ["a warning"]}
    explanation = model.explain(rows)
    names, found = pack_arrays(explanation_arrays(explanation))
    reference, named = describe_reference(load_reference(model))
    cells, bins = pack_arrays(named)
    return {
        "description": {**common, "description": describe(model)},
        "explanation": ({**common, "arrays": names, "explanation": describe_explanation(explanation)}, found),
        "prediction": ({**common, "arrays": described, "report": report}, arrays),
        "reference": ({**common, "arrays": cells, "reference": reference}, list(bins)),
        "rows": rows, "probability": probability,
    }  # fmt: skip


def change(document: Any, path: Sequence[Any], value: Any) -> Any:
    """Return a deep copy of JSON values with another value at a path."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def test_a_valid_reply_is_accepted(with_replies: Callable[..., UntrustedModel], valid: dict[str, Any]) -> None:
    model = with_replies(pack(valid["description"]), pack(*valid["prediction"]))
    np.testing.assert_array_equal(model.predict_proba(valid["rows"])[:, 1], valid["probability"])
    assert model.backend.take_notes() == ["a warning"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["arrays", 0, "shape"], [4]),
        (["arrays", 0, "shape"], [-3]),
        (["arrays", 0, "shape"], [3, 0]),
        (["arrays", 0, "shape"], [2**62]),
        (["arrays", 0, "shape"], 3),
        (["arrays", 0, "shape"], [3.0]),
        (["arrays", 0, "dtype"], "|O"),
        (["arrays", 0, "dtype"], ">f8"),
        (["arrays", 0, "dtype"], "<i8"),
        (["arrays", 0, "dtype"], ["<f8"]),
        (["arrays", 0, "order"], "K"),
        (["arrays", 0, "name"], "value"),
        (["arrays", 0, "name"], []),
        (["arrays", 0], None),
        (["arrays"], []),
        (["report", "n_rows"], 4),
        (["report", "columns", 0, "n_null"], 4),
        (["report", "columns", 0, "n_null"], True),
        (["report", "columns", 0, "low"], "0"),
        (["report", "columns", 0, "null_share"], 1e300),
        (["report", "columns", 0, "unseen_levels"], ["x"] * 4),
        (["report", "columns", 0, "kind"], "object"),
        (["report", "columns", 0, "name"], 1),
        (["report", "columns", 0], {}),
        (["report"], None),
        (["warnings"], [1]),
        (["warnings"], "text"),
        (["sha256"], None),
        (["error"], {"kind": "SystemExit", "what": "", "where": "", "fix": ""}),
        (["error"], {"kind": "DataError", "what": 1, "where": "", "fix": ""}),
        (["error"], "text"),
    ],
)
def test_a_malformed_prediction_is_rejected(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any], path: list[Any], value: Any
) -> None:
    document, arrays = valid["prediction"]
    model = with_replies(pack(valid["description"]), pack(change(document, path, value), arrays))
    with pytest.raises(ArtifactError, match="untrusted model sent a malformed reply: ") as error:
        model.predict(valid["rows"])
    assert error.value.where == str(model.process.folder)
    assert isinstance(model.process._child, FakeChild) and model.process._child.n_closed == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["arrays", 0, "shape"], [4, 4]),
        (["arrays", 0, "dtype"], "<f4"),
        (["arrays", 0, "name"], "base"),
        (["arrays", 1, "shape"], []),
        (["explanation", "columns"], ["a", "b", "c", "no such column"]),
        (["explanation", "columns"], ["a", "b", "c", "c"]),
        (["explanation", "columns"], ["a", "b", "c"]),
        (["explanation", "columns"], "abcd"),
        (["explanation", "outputs"], ["yes"]),
        (["explanation", "scale"], "odds"),
        (["explanation", "method"], ["exact trees"]),
        (["explanation", "divided"], {"no such feature": ["a", "b"]}),
        (["explanation", "divided"], {"a": ["a", "no such column"]}),
        (["explanation", "divided"], [["a", "b"]]),
        (["explanation"], None),
        (["arrays"], []),
    ],
)
def test_a_malformed_explanation_is_rejected(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any], path: list[Any], value: Any
) -> None:
    document, arrays = valid["explanation"]
    model = with_replies(
        pack(valid["description"]), *(pack(each, arrays) for each in (document, change(document, path, value)))
    )
    assert set(model.explain(valid["rows"]).columns) == {"a", "b", "c", "day"}
    with pytest.raises(ArtifactError, match="untrusted model sent a malformed reply: "):
        model.explain(valid["rows"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["reference", "columns"], {}),
        (["reference", "columns", 0, "kind"], "categorical"),
        (["reference", "columns", 0, "name"], "no such column"),
        (["reference", "columns", 0, "edges"], "object"),
        (["reference", "columns", 0, "n"], 10**9),
        (["reference", "columns", 2, "levels"], ["x"] * 2),
        (["reference", "columns", 2, "hashed"], True),
        (["reference", "metrics"], {"roc_auc": [0.5, 0]}),
        (["reference", "time"], 1),
        (["reference"], None),
        (["arrays", 0, "dtype"], "|O"),
        (["arrays", 0, "shape"], [10**9]),
        (["arrays", 0, "name"], "edges_float32"),
        (["arrays"], []),
    ],
)
def test_a_malformed_reference_is_rejected(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any], path: list[Any], value: Any
) -> None:
    document, arrays = valid["reference"]
    model = with_replies(pack(valid["description"]), pack(change(document, path, value), arrays))
    with pytest.raises(ArtifactError, match="untrusted model sent a malformed reply: "):
        model.drift(valid["rows"])


@pytest.mark.parametrize("wrong", [[-1, 4], [4, 0], [2**62, -(2**62) + 3], [1, 1]])
def test_counts_that_are_not_those_of_the_rows_are_rejected(wrong: list[int]) -> None:
    for cells in ([1, 2, 0, 3, 0], [1, 2, 0, *wrong]):
        described, parts = pack_arrays({"cells": np.array(cells)})
        reply = {"arrays": described}, [memoryview(part.tobytes()) for part in parts]
        if cells[3:] == [3, 0]:
            assert read_counts([3, 2], 3, *reply).tolist() == cells
        else:
            with pytest.raises(ValueError, match="expected each of 3 rows in one cell of each column"):
                read_counts([3, 2], 3, *reply)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -5.0])
def test_impossible_predictions_do_not_end_a_comparison(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any], monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """They are reported, or an error of the model: none of Python."""
    model = with_replies(pack(valid["description"]), pack(*valid["reference"]))
    frame = table()
    prediction = Prediction("binary", probability=np.full(N, value))
    monkeypatch.setattr(UntrustedModel, "_prediction_of", lambda self, rows: (prediction, None))
    monkeypatch.setattr(
        UntrustedModel, "_count", lambda self, sizes, rows: np.concatenate([[N, *[0] * (n - 1)] for n in sizes])
    )
    with suppress(GpupipeError):
        assert model.drift(frame).n_scored == N


def test_a_scorer_and_onnx_of_an_untrusted_model_are_refused(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any]
) -> None:
    model = with_replies(pack(valid["description"]))
    for call in (lambda: model.scorer(), lambda: model.to_onnx("model.onnx")):
        with pytest.raises(ConfigError, match="is not supported for untrusted models"):
            call()
    assert not hasattr(model, "estimator")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["manifest", "task"], "regression"),
        (["manifest", "labels"], ["yes"]),
        (["manifest", "labels"], [["no"], ["yes"]]),
        (["manifest", "reading", "csv", "delimiter"], "||"),
        (["manifest", "reading", "csv", "encoding"], "hex"),
        (["manifest", "reading", "csv", "encoding"], "Punycode"),
        (["manifest", "reading", "texts"], [1]),
        (["manifest", "reading", "events", "tables"], {"orders": {**EVENTS, "where": "n > 0 and " * 2500 + "n > 0"}}),
        (
            ["manifest", "reading", "events", "tables"],
            {"o": {**EVENTS, "compute": FORMULAS}},
        ),
        (["manifest", "reading"], None),
        (["manifest", "data"], [{"column": "b"}]),
        (["manifest", "data"], [{"column": "b", "kind": "numeric", "format": None, "rules": {"range": [0, 1]}}] * 65),
        (["manifest", "importances"], {"metric": 1}),
        (["manifest", "metrics"], {"roc_auc": "1"}),
        (["manifest", "kernels"], []),
        (["manifest", "created"], 1),
        (["manifest"], []),
        (["inputs"], "abc"),
        (["names"], [None]),
        (["schema", 0, "kind"], "object"),
        (["schema", 0, "storage"], "object"),
        (["schema"], {}),
        (["coded"], ["no such column"]),
        (["tables"], {"orders": {"schema": []}}),
        (["tables"], []),
        (["decision", "threshold"], 2.0),
        (["name"], 3),
    ],
)
def test_a_malformed_description_is_rejected(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any], path: list[Any], value: Any
) -> None:
    with pytest.raises(ArtifactError, match="untrusted model sent a malformed reply: "):
        with_replies(pack(change(valid["description"], ["description", *path], value)))


def test_corrupt_replies_are_rejected_or_harmless(
    with_replies: Callable[..., UntrustedModel], valid: dict[str, Any]
) -> None:
    """Change random bytes of valid replies: only errors of gpupipe may be raised."""
    chance = np.random.default_rng(5)
    valid_bytes = pack(valid["description"]), pack(*valid["prediction"])
    edges = [b"", b"\0" * 8, struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 2) + b"[]", valid_bytes[0][:-1] + b"x"]
    n_rejected = 0
    for case in range(400):
        kind = case % 2
        corrupt = bytearray(valid_bytes[kind])
        for at in chance.integers(0, len(corrupt), 2):
            corrupt[at] = chance.integers(0, 256)
        replies = [bytes(corrupt), valid_bytes[1]] if kind == 0 else [valid_bytes[0], bytes(corrupt)]
        if case < len(edges):
            replies = [edges[case]]
        try:
            model = with_replies(*replies)
            model.predict_table(valid["rows"])
        except GpupipeError:
            n_rejected += 1
    assert n_rejected > 200


GARBAGE = """\
import sys
from gpupipe.children import serve

if __name__ == "__main__":
    serve(lambda message: b"garbage" * 3)
"""


def test_garbage_from_the_child_is_rejected(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "garbage_worker.py").write_text(GARBAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(untrusted_process, "WORKER", "garbage_worker")
    with pytest.raises(ArtifactError, match="untrusted model sent a malformed reply: "):
        gp.load_model(trained("ridge"), untrusted=True)


def test_an_unexpected_exception_in_the_child_is_a_model_error(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, with_replies: Callable[..., UntrustedModel]
) -> None:
    worker = ModelWorker()
    monkeypatch.setattr(worker, "_load", lambda request: 1 // 0)
    with pytest.raises(ArtifactError, match=r"the untrusted model failed unexpectedly: ZeroDivisionError: .*"):
        with_replies(worker.handle(pack({"request": "describe"})))
