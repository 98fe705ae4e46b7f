"""Malicious models with valid hashes: each is rejected with a specific message, at low cost."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.artifact.manifest import render
from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.backends import choose
from gpupipe.config import parse_config
from gpupipe.errors import ArtifactError
from gpupipe.inference.explanation.compute import ModelExplainer
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.pipeline.run import run_pipeline
from tools.fuzz.structure.entries import replaced_entries

MOST_BYTES = 150 << 20  # additional memory that rejecting a model may take
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated binary model with a linear estimator and three input columns."""
    folder = tmp_path_factory.mktemp("hostile")
    chance = np.random.default_rng(0)
    table = pa.table({"a": chance.normal(size=200), "b": chance.integers(0, 50, 200), "c": ["x", "y"] * 100,
                      "t": ["no", "yes", "no", "yes"] * 50})  # fmt: skip
    pq.write_table(table, folder / "t.parquet")
    settings: dict[str, Any] = {
        "source": {"path": str(folder / "t.parquet"), "target": "t", "positive": "yes"}, "device": "cpu",
        "models": ["logistic_regression"], "report": {"plots": False}, "evaluate": {"calibrate": "isotonic"},
    }  # fmt: skip
    return run_pipeline(parse_config(settings), folder / "run").path / "model"


@pytest.fixture(scope="module")
def trees(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same model with other estimators, mostly of trees."""
    made = {}
    names = [feature["name"] for feature in json.loads((model / "features.json").read_text())]
    X = np.asfortranarray(np.random.default_rng(1).normal(size=(80, len(names))), np.float32)
    y = (X[:, 0] > 0).astype(np.float64)
    context = FitContext(choose("cpu"), "binary", 7, 2, {}, names)
    small: dict[str, dict[str, Any]] = {
        "xgboost": {"n_estimators": 3},
        "random_forest": {"n_estimators": 3},
        "knn": {"algorithm": "kd_tree"},
    }
    for name, params in {**small, "hist_gradient_boosting": {"max_iter": 2}}.items():
        folder = tmp_path_factory.mktemp(name) / "model"
        shutil.copytree(model, folder, ignore=shutil.ignore_patterns("estimator.npz", "parity*"))
        description = fit(MODELS.get(name)(**params), X, y, context).save(folder)
        seal(folder, partial(dict.update, estimator=description))
        made[name] = folder
        gp.load_model(folder, "cpu")
    return made


def seal(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda values: None) -> None:
    """Write a manifest with valid hashes."""
    values = json.loads((folder / "manifest.json").read_text())
    del values["manifest_sha256"]
    files = [path for path in sorted(folder.iterdir()) if path.name != "manifest.json" and path.is_file()]
    values["files"] = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
        for path in files
    }
    change(values)
    values["manifest_sha256"] = hashlib.sha256((json.dumps(values, indent=2) + "\n").encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(values, indent=2) + "\n")


def refused(folder: Path, message: str) -> None:
    """Check that loading a model fails with a short message and little memory."""
    before = peak()
    with pytest.raises(ArtifactError, match=message) as caught:
        gp.load_model(folder, "cpu")
    assert caught.value.exit_code == 5
    assert len(str(caught.value)) < 2000
    assert peak() - before < MOST_BYTES


def peak() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def array(shape: object, descr: str = "<f8", data: bytes = b"") -> bytes:
    """Return the bytes of an npy file with any header."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(*members: tuple[str, bytes], packed: bool = False) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = archive.compression
            archive.NameToInfo.pop(name, None)  # allow duplicate names
            archive.writestr(info, content)
    return buffer.getvalue()


def with_json(name: str, change: Callable[[Any], Any]) -> Change:
    def edit(folder: Path) -> None:
        values = json.loads((folder / name).read_text())
        change(values)
        (folder / name).write_text(json.dumps(values))

    return edit


def with_program(change: Callable[[dict[str, Any]], Any]) -> Change:
    def edit(folder: Path) -> None:
        arrays = dict(np.load(folder / "program.npz"))
        change(arrays)
        np.savez(folder / "program.npz", **arrays)

    return edit


def with_bytes(name: str, content: Callable[[], bytes]) -> Change:
    return lambda folder: (folder / name).write_bytes(content())


FILES = {
    "deep": (with_bytes("learned.json", lambda: b"[" * 100_000), r"learned\.json .*(nested|containers)"),
    "brackets": (with_bytes("learned.json", lambda: b"[" + b"[]," * 2_000_000 + b"[]]"), "too many containers"),
    "digits": (with_bytes("learned.json", lambda: b"1" * 100_000), r"learned\.json"),
    "infinite": (with_bytes("learned.json", lambda: b"[1e999]"), "exceeds float64"),
    "nan": (with_bytes("learned.json", lambda: b"[NaN]"), "NaN is not a JSON number"),
    "twice": (with_bytes("schema.json", lambda: b'[{"name": 1, "name": 2}]'), "duplicate key 'name'"),
    "no list": (
        with_bytes("features.json", lambda: b"{}"),
        r"features\.json is invalid: the document: expected a list; found an object",
    ),
    "zip bomb": (
        with_bytes("program.npz", lambda: npz(("a.npy", bytes(50_000_000)), packed=True)),
        "decompression bomb",
    ),
    "packed": (
        with_bytes("program.npz", lambda: npz(("a.npy", array((9,), data=bytes(72))), packed=True)),
        "compressed",
    ),
    "enormous": (
        with_bytes("program.npz", lambda: npz(("params.npy", array((10**12,))))),
        "declares 1,000,000,000,000",
    ),
    "too large": (
        with_bytes("estimator.npz", lambda: npz(("coef.npy", array((10**12, 3))))),
        "declares 3,000,000,000,000",
    ),
    "no bytes": (
        with_bytes("program.npz", lambda: npz(("params.npy", array((10**11, 0))))),
        "declares a dimension of 100,000,000,000",
    ),
    "negative": (with_bytes("program.npz", lambda: npz(("params.npy", array((-1,))))), "declares -1"),
    "objects": (
        with_bytes("program.npz", lambda: npz(("a.npy", array((1,), "|O", b"\x80\x04K\x01.")))),
        "Python objects",
    ),
    "header": (
        with_bytes("program.npz", lambda: npz(("a.npy", b"\x93NUMPY\x02\x00(#\x00\x00" + b"(" * 9000))),
        "header",
    ),
    "member twice": (
        with_bytes("program.npz", lambda: npz(("a.npy", array((0,))), ("a.npy", array((0,))))),
        "duplicate member names",
    ),
    "members": (
        with_bytes("program.npz", lambda: npz(*((f"{i}.npy", b"") for i in range(5000)))),
        "at most 4,096 arrays; found 5,000",
    ),
    "unknown": (with_bytes("levels.json", lambda: b'{"z": ["x"]}'), "levels: column 'z' is not in the schema"),
    "duplicate level": (with_bytes("levels.json", lambda: b'{"c": ["x", "x"]}'), "duplicate level"),
    "levels of another type": (
        with_bytes("levels.json", lambda: b'{"c": "xy"}'),
        r"levels\.json .* c: expected a list",
    ),
    "a level of another type": (
        with_bytes("levels.json", lambda: b'{"c": ["x", 1]}'),
        r"levels\.json is invalid: c\[1\]: expected text; found 1",
    ),
    "levels in a list": (
        with_bytes("levels.json", lambda: b"[]"),
        r"levels\.json is invalid: the document: expected an object",
    ),
    "offset": (
        with_program(lambda a: a["instructions"].__setitem__((slice(None), 5), 1 << 30)),
        "outside the parameters",
    ),
    "source": (with_program(lambda a: a["instructions"].__setitem__((0, 3), 99)), "does not exist"),
    "doubles": (
        with_program(lambda a: a.update(instructions=a["instructions"].astype(float))),
        "expected instructions with dtype int32",
    ),
    "endless": (
        with_program(lambda a: a.update(instructions=np.repeat(a["instructions"][:1], 100_000, axis=0))),
        "100,000 instructions",
    ),
    "kind": (with_json("schema.json", lambda v: v[0].update(kind="evil")), "found 'evil'"),
    "storage": (with_json("schema.json", lambda v: v[0].update(storage="../x")), "storage type"),
    "buckets": (
        with_json("schema.json", lambda v: v[2].update(n_buckets=10**15)),
        r"\[2\]\.n_buckets: expected an integer in",
    ),
    "column twice": (with_json("schema.json", lambda v: v.append(v[0])), "duplicate column"),
    "codes": (with_json("features.json", lambda v: v[0].update(n_codes=10**18)), "codes"),
    "width": (with_bytes("estimator.npz", lambda: coefficients(1, 2)), "it takes 2"),
    "outputs": (with_bytes("estimator.npz", lambda: coefficients(7, 4)), "7 outputs"),
    "infinite weight": (with_bytes("estimator.npz", lambda: coefficients(1, 4, float("inf"))), "not finite"),
}


def coefficients(outputs: int, columns: int, value: float = 0.0) -> bytes:
    shape, n_bytes = (outputs, columns), 8 * outputs
    return npz(
        ("coef.npy", array(shape, data=struct.pack("<d", value) * (outputs * columns))),
        ("intercept.npy", array((outputs,), data=bytes(n_bytes))),
    )


@pytest.mark.parametrize("name", FILES)
def test_a_crafted_file_is_rejected(name: str, model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    change, message = FILES[name]
    change(folder)
    seal(folder)
    refused(folder, message)


KERNEL = ("name", "file", "out", "nulls", "sha256")


def isotonic(x: object, y: object) -> dict[str, Any]:
    return {"decision": {"threshold": 0.5, "calibration": {"method": "isotonic", "x": x, "y": y}}}


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "task": ({"task": "regression", "labels": []}, "with a calibration of method|expected an estimator for"),
    "task unknown": ({"task": "evil"}, "task: expected one of .*; found 'evil'"),
    "labels": ({"labels": ["a", "b", "c"]}, "expected 2 labels; found 3"),
    "labels equal": ({"labels": ["a", "a"]}, "duplicate label"),
    "threshold": ({"decision": {"threshold": 7, "calibration": None}}, r"expected a threshold in \[0, 1\]; found 7"),
    "threshold text": ({"decision": {"threshold": "x", "calibration": None}}, "threshold: expected a finite number"),
    "labels of two types": ({"labels": [1, True]}, "labels do not share one type"),
    "labels too large": ({"labels": [2**70, 1]}, "labels do not share one type"),
    "half a letter": ({"labels": ["\ud800", "b"]}, "surrogates not allowed"),
    "threshold of 400 digits": ({"decision": {"threshold": 10**400, "calibration": None}}, "expected a finite number"),
    "steep": (
        {"decision": {"threshold": 0.5, "calibration": {"method": "sigmoid", "slope": 1e300, "intercept": 1e300}}},
        "slope or intercept exceeds 1e",
    ),
    "lengths": (isotonic([0, 1], [0]), "2 inputs for 1 outputs"),
    "falling": (isotonic([0, 1], [1, 0]), "expected ascending inputs"),
    "texts": (isotonic(["a"], ["b"]), r"calibration\.x\[0\]: expected a finite number; found 'a'"),
    "method": (
        {"decision": {"threshold": 0.5, "calibration": {"method": "e", "slope": 1, "intercept": 1}}},
        "method: expected one of isotonic, sigmoid, temperature; found 'e'",
    ),
    "reading": (
        {"reading": {"csv": {"encoding": "evil"}, "events": {"tables": {}, "entities": None}}},
        "unknown encoding",
    ),
    "code": ({"kernels": [dict.fromkeys(KERNEL, "../../etc/passwd") | {"inputs": []}]}, "contains Python code"),
    "version": ({"format_version": 3}, "that wrote the model"),
    "no estimator": ({"estimator": []}, "estimator: expected an object; found a list"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_with_wrong_values_is_rejected(name: str, model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    seal(folder, lambda values: values.update(MANIFESTS[name][0]))
    refused(folder, MANIFESTS[name][1])


@pytest.mark.parametrize("name", ["Schema.json", "MANIFEST.json"])
def test_names_that_differ_in_case_only_are_rejected(name: str, model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    shutil.copy(folder / "schema.json", folder / name)
    seal(folder, lambda values: values["files"].update({name: values["files"]["schema.json"]}))
    refused(folder, "differ in case only")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": "multiclass"}, "found multiclass"), ({"n_classes": 10**9}, "has 1000000000 classes"),
        ({"classes": [0, 5]}, "class codes in"), ({"classes": []}, "0 of them in training"),
        ({"feature_names": ["a"]}, "it takes 4"), ({"feature_names": "abc"}, "feature_names: expected a list"),
        ({"library": "pickle"}, "unknown library"), ({"library": "scikit-learn"}, "file is missing"),
    ],
)  # fmt: skip
def test_a_wrong_description_of_the_estimator_is_rejected(
    wrong: dict[str, Any], message: str, model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    seal(folder, lambda values: values["estimator"].update(wrong))
    refused(folder, message)


def test_trees_with_invalid_children_cycles_or_columns_are_rejected(trees: dict[str, Path], tmp_path: Path) -> None:
    import skops.io
    import xgboost

    def forest(change: Callable[[Any], None], name: str = "random_forest") -> None:
        folder = Path(shutil.copytree(trees[name], tmp_path / "model", dirs_exist_ok=True))
        path = folder / "estimator.skops"
        found = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
        change(found)
        skops.io.dump(found, path)
        seal(folder)

    def nodes(field: str, value: int) -> Callable[[Any], None]:
        def change(found: Any) -> None:
            state = found.estimators_[0].tree_.__getstate__()
            state["nodes"] = state["nodes"].copy()
            state["nodes"][field][0] = value
            found.estimators_[0].tree_.__setstate__(state)

        return change

    for field, value, message in (
        ("left_child", 10**6, "child that does not exist"), ("left_child", 0, "child that does not exist"),
        ("feature", 10**6, "reads column"), ("right_child", 1, "two parents"),
    ):  # fmt: skip
        forest(nodes(field, value))
        refused(tmp_path / "model", message)
    forest(lambda found: found._predictors[0][0].nodes["feature_idx"].__setitem__(0, 99), "hist_gradient_boosting")
    refused(tmp_path / "model", "reads column")
    shutil.rmtree(tmp_path / "model")
    booster = xgboost.Booster(model_file=trees["xgboost"] / "estimator.ubj")
    document = json.loads(booster.save_raw("json"))
    for name, value, message in (
        ("left_children", 10**6, "child that does not exist"), ("split_indices", 77, "reads column"),
        ("right_children", 1, "two parents"),
    ):  # fmt: skip
        changed = json.loads(json.dumps(document))
        changed["learner"]["gradient_booster"]["model"]["trees"][0][name][0] = value
        folder = Path(shutil.copytree(trees["xgboost"], tmp_path / "model", dirs_exist_ok=True))
        (folder / "estimator.ubj").write_bytes(ubj(changed))
        seal(folder)
        refused(folder, message)
    (folder / "estimator.ubj").write_bytes((trees["xgboost"] / "estimator.ubj").read_bytes()[:-50])
    seal(folder)
    refused(folder, "malformed binary JSON|bytes remain")


ARRAYS = {"left_children": "l", "right_children": "l", "parents": "l", "split_indices": "l", "split_type": "U",
          "default_left": "U", "base_weights": "d", "loss_changes": "d", "sum_hessian": "d", "split_conditions": "d",
          "categories": "l", "categories_nodes": "l", "categories_segments": "L", "categories_sizes": "L"}  # fmt: skip
TYPES = {"l": ">i4", "U": ">u1", "d": ">f4", "L": ">i8"}


def ubj(value: Any, key: str = "") -> bytes:
    """Return a value as binary JSON in the form of XGBoost."""

    def text(word: str) -> bytes:
        return b"L" + struct.pack(">q", len(word.encode())) + word.encode()

    if isinstance(value, dict):
        return b"{" + b"".join(text(k) + ubj(v, k) for k, v in value.items()) + b"}"
    if key in ARRAYS:
        kind = ARRAYS[key]
        return f"[${kind}#L".encode() + struct.pack(">q", len(value)) + np.array(value, TYPES[kind]).tobytes()
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(ubj(item) for item in value)
    return b"S" + text(value) if isinstance(value, str) else b"l" + struct.pack(">i", value)


def test_links_and_pipes_are_rejected_without_showing_their_content(model: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not show")
    for make in (lambda path: path.symlink_to(secret), os.mkfifo, lambda path: os.link(secret, path)):
        folder = Path(shutil.copytree(model, tmp_path / "model"))
        (folder / "learned.json").unlink()
        make(folder / "learned.json")
        with pytest.raises(ArtifactError, match=r"learned\.json") as caught:
            gp.load_model(folder, "cpu")
        assert "do not show" not in str(caught.value)
        shutil.rmtree(folder)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(model)
    with pytest.raises(ArtifactError, match="the model is a symbolic link"):
        gp.load_model(tmp_path / "run")


def test_an_estimator_that_fails_on_valid_rows_raises_a_model_error(trees: dict[str, Path]) -> None:
    loaded = gp.load_model(trees["random_forest"], "cpu")
    loaded.estimator.estimator.estimators_ = []
    with pytest.raises(ArtifactError, match="failed on valid rows"):
        loaded.predict(pa.table({"a": [1.0], "b": [2], "c": ["x"]}))


@pytest.mark.parametrize("raw", [b'{"a": 1, "a": 1}', b"[Infinity]", b"\xff\xfe[\x00]\x00", b"", b"[" * 5000])
def test_nonstandard_json_is_rejected(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(raw)


def test_brackets_in_texts_do_not_count_as_containers() -> None:
    texts = ["[[{", 'a"[\\'] * 2_000
    assert parse_json(json.dumps(texts, separators=(",", ":")).encode()) == texts


JSON_PARTS = ("manifest.json", "schema.json", "levels.json", "features.json", "learned.json", "training_summary.json",
              "drift.json", "parity.json", "parity_rows.json")  # fmt: skip
ROW = pa.table({"a": [1.0], "b": [2], "c": ["x"]})
MOST_CASES = 12  # of each part; `python -m tools.fuzz --kind entries:10000` tries all


USES: tuple[Callable[[gp.Model], object], ...] = (
    repr, gp.Model._repr_html_, lambda model: model.importances, lambda model: model.predict_table(ROW),
)  # fmt: skip
OWN_USE: dict[str, Callable[[gp.Model], object]] = {
    "drift.json": lambda model: model.drift(ROW), "manifest.json": lambda model: model.scorer("numpy"),
    "parity.json": gp.Model.verify, "parity_rows.json": gp.Model.verify,
}  # fmt: skip


@pytest.mark.parametrize("part", JSON_PARTS)
def test_an_entry_of_another_type_is_refused_or_harmless(part: str, model: Path, tmp_path: Path) -> None:
    cases = list(replaced_entries(json.loads((model / part).read_text())))
    n_refused = 0
    for steps, text, changed in Random(part).sample(cases, min(MOST_CASES, len(cases))):
        folder = Path(shutil.copytree(model, tmp_path / "model", dirs_exist_ok=True))
        rewrite(folder, part, changed)
        case = f"{part} {steps} {text}"
        try:
            loaded = gp.load_model(folder, "cpu")
            for use in (*USES, OWN_USE.get(part, repr)):
                use(loaded)
        except ArtifactError as error:
            n_refused += 1
            assert error.where and error.fix and ("\n" not in error.what), case
        except Exception as error:
            raise AssertionError(case) from error
    assert n_refused


def rewrite(folder: Path, part: str, values: Any) -> None:
    """Write a JSON part of a model with valid hashes."""
    if part == "manifest.json":
        valid = values if isinstance(values, dict) else {}
        (folder / part).write_bytes(render(valid) if valid else json.dumps(values).encode())
        return
    (folder / part).write_text(json.dumps(values))
    seal(folder)


def test_scores_of_another_model_in_the_reference_are_refused(model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    with_json("drift.json", lambda values: values["scores"][0].update(name="probability_maybe"))(folder)
    seal(folder)
    with pytest.raises(ArtifactError, match=r"drift\.json .* 'probability_maybe' is not an output of the model"):
        gp.load_model(folder, "cpu").drift(ROW)


HISTORY = Path(__file__).parents[1] / "pipeline" / "fixtures" / "format_1" / "model"
DERIVED: dict[str, tuple[Change, str]] = {
    "made": (
        with_json("derivation.json", lambda values: values["made"].popitem()),
        r"derivation\.json: made: expected",
    ),
    "op": (with_json("derivation.json", lambda values: values["ops"].append({"mine": {}})), "unknown op"),
    "text": (
        with_json("derivation.json", lambda values: values.update(ops="x")),
        r"derivation\.json .* ops: expected a",
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_derivation_without_its_columns_is_refused(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(HISTORY, tmp_path / "model"))
    change, message = DERIVED[name]
    change(folder)
    seal(folder)
    with pytest.raises(ArtifactError, match=message):
        gp.load_model(folder, "cpu")


def test_a_failed_explanation_is_an_error_of_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = gp.load_model(model, "cpu")

    def fail(explainer: ModelExplainer, *arguments: Any) -> Any:
        raise ValueError("Input contains NaN")

    monkeypatch.setattr(ModelExplainer, "_explain", fail)
    for explain in (loaded.explain, loaded.scorer("numpy").explain):
        rows = ROW if explain == loaded.explain else ROW.to_pylist()
        with pytest.raises(ArtifactError, match="failed to explain valid rows: Input contains NaN") as caught:
            explain(rows)
        assert caught.value.where == str(model)
