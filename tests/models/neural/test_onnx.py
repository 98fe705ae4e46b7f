"""ONNX files compared with PyTorch, and predictions without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.models.neural.files import onnx as onnx_file
from gpupipe.models.neural.fitted.onnx_runtime import NAME, check_session, open_session, scores
from gpupipe.models.neural.fitted.pytorch import FittedNeural
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.tasks import Task
from tests.models.folder_files import load_fitted
from tests.models.networks import fitted, given, rows

# What is before the body of a network does not depend on its kind.
CASES: dict[str, tuple[str, Task, int, tuple[int, ...]]] = {
    "mlp, two classes": ("mlp", "binary", 3, (4, 9)),
    "realmlp, three classes": ("realmlp", "multiclass", 3, (4, 9)),
    "tabm, two classes": ("tabm", "binary", 3, (4, 9)),
    "tabm, three classes, no categories": ("tabm", "multiclass", 3, ()),
    "transformer, a number": ("ft_transformer", "regression", 3, (4, 9)),
    "transformer, three classes, no numbers": ("ft_transformer", "multiclass", 0, (4, 9)),
}


@dataclass(frozen=True)
class Saved:
    """A model and its files."""

    model: FittedNeural
    folder: Path
    description: dict[str, Any]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Saved]:
    @cache
    def written(case: str) -> Saved:
        model = fitted(*CASES[case])
        folder = tmp_path_factory.mktemp("model")
        return Saved(model, folder, model.save(folder))

    return written


@pytest.fixture(scope="module", params=CASES)
def saved(request: pytest.FixtureRequest, write: Callable[[str], Saved]) -> Saved:
    return write(request.param)


@pytest.fixture(scope="module")
def one(write: Callable[[str], Saved]) -> Saved:
    return write("mlp, two classes")


def test_the_file_matches_pytorch_within_the_recorded_tolerance(saved: Saved) -> None:
    assert saved.description["files"] == ["estimator.safetensors", "architecture.json", NAME]
    assert sorted(saved.description["files"]) == sorted(path.name for path in saved.folder.iterdir())
    said = saved.description["onnx"]
    assert said["opset"] >= 18
    assert 0.0 <= said["max_error"] <= 1e-5
    onnx.checker.check_model(onnx.load(saved.folder / NAME), full_check=True)


@pytest.mark.parametrize("n_rows", [1, 10, 3000])
def test_its_outputs_are_for_anyone_to_use(saved: Saved, n_rows: int) -> None:
    X = rows(saved.model, n_rows)
    session = onnxruntime.InferenceSession(saved.folder / NAME, providers=["CPUExecutionProvider"])
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"X": X}), strict=True))
    expected = given(saved.model, X)
    if saved.model.task == "regression":
        np.testing.assert_allclose(found["value"][:, 0], expected, rtol=1e-6)
        return
    if saved.model.task == "binary":
        expected = np.column_stack([1.0 - expected, expected])
    np.testing.assert_allclose(found["probability"], expected, atol=1e-6)
    assert found["score"].shape == (n_rows, saved.model.estimator.architecture.n_outputs)


def test_the_file_names_no_source_file_of_the_machine_that_wrote_it(saved: Saved) -> None:
    raw = (saved.folder / NAME).read_bytes()
    assert not any(
        text in raw for text in (b".py", b"/home", b"site-packages", str(Path(__file__).parents[3]).encode())
    )


SERVE = """
import json, sys
from pathlib import Path
for name in sys.argv[2].split(","):
    sys.modules[name] = None  # as if it were not installed
import numpy as np
from gpupipe.errors import ConfigError
from tests.models.folder_files import load_fitted
folder = Path(sys.argv[1])
try:
    model = load_fitted(folder / "model", json.loads((folder / "description.json").read_text()))
except ConfigError as error:
    sys.exit(str(error))
prediction = model.predict(np.load(folder / "X.npy"))
np.save(folder / "given.npy", prediction.output)
print(model.library, model.notes, sys.modules["torch"], "onnx" in sys.modules)
"""


def serve(saved: Saved, folder: Path, X: Any, without: str) -> subprocess.CompletedProcess[str]:
    (folder / "model").symlink_to(saved.folder)
    (folder / "description.json").write_text(json.dumps(saved.description))
    np.save(folder / "X.npy", X)
    command = [sys.executable, "-W", "error", "-c", SERVE, str(folder), without]
    return subprocess.run(command, capture_output=True, text=True)


def test_without_pytorch_onnx_runtime_serves_the_same_with_a_note(saved: Saved, tmp_path: Path) -> None:
    X = rows(saved.model, 5000)
    done = serve(saved, tmp_path, X, "torch")
    assert done.returncode == 0, done.stderr
    said = "('PyTorch is not installed: ONNX Runtime computes the network',)"
    assert done.stdout.strip() == f"onnxruntime {said} None False"
    expected = given(saved.model, X)
    np.testing.assert_allclose(np.load(tmp_path / "given.npy"), expected, rtol=1e-6, atol=1e-6)


def test_without_either_numpy_serves_a_perceptron(saved: Saved, tmp_path: Path) -> None:
    if saved.model.estimator.architecture.kind not in ("mlp", "tabm"):
        pytest.skip("computed by PyTorch or ONNX Runtime only")
    X = rows(saved.model, 1000)
    X[0, : saved.model.estimator.architecture.n_numbers] = 1e38
    done = serve(saved, tmp_path, X, "torch,onnxruntime,safetensors")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "numpy ('PyTorch is not installed: NumPy computes the network',) None False"
    np.testing.assert_allclose(np.load(tmp_path / "given.npy"), given(saved.model, X), rtol=2e-6, atol=2e-6)


def test_without_either_the_error_has_both_install_commands(write: Callable[[str], Saved], tmp_path: Path) -> None:
    one = write("transformer, a number")
    done = serve(one, tmp_path, rows(one.model, 3), "torch,onnxruntime")
    assert "neither is installed" in done.stderr
    assert "pip install 'gpupipe[torch]', or pip install onnxruntime" in done.stderr


def test_without_the_packages_there_is_no_file_and_the_description_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    model = fitted("ft_transformer", "binary")
    description = model.save(tmp_path)
    assert description["files"] == ["estimator.safetensors", "architecture.json"]
    assert description["onnx"] == {"absent": "no ONNX file: onnx not installed; pip install onnx onnxruntime"}
    X = rows(model, 10)
    np.testing.assert_array_equal(given(load_fitted(tmp_path, description), X), given(model, X))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"without an ONNX file.*\n.*\n.*gpupipe\[torch\]"):
        load_fitted(tmp_path, description)


def test_a_file_of_another_network_differs_and_is_refused(
    one: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = fitted("mlp", "binary", seed=5)
    error = onnx_file.largest_error(other.estimator, one.folder / NAME)
    assert error > 0.01
    translated = onnx.load(one.folder / NAME)
    monkeypatch.setattr(onnx_file, "onnx_model", lambda served: translated)
    with pytest.raises(GpupipeError, match=f"differ by {error:.2g}"):
        onnx_file.write_onnx(other.estimator, tmp_path / NAME)
    assert not (tmp_path / NAME).exists()


def test_quantiles_are_in_order(tmp_path: Path) -> None:
    network = fitted("mlp", "multiclass").estimator.network
    served = Served(network, "quantile", 2_000.0, 12.5).eval()
    assert onnx_file.write_onnx(served, tmp_path / NAME)["max_error"] < 1e-5
    X = onnx_file.trial_rows(served)
    found = scores(open_session((tmp_path / NAME).read_bytes(), NAME), X, 3)
    assert (np.diff(found) >= 0).all() and (np.diff(found) > 0).any()


def test_a_constant_column_is_exported_without_a_warning(tmp_path: Path) -> None:
    served = fitted("realmlp", "binary").estimator
    served.network.numbers.scale[0] = 0.0  # what `PeriodicEmbedding.learn_columns` gives a constant
    assert onnx_file.write_onnx(served, tmp_path / NAME)["max_error"] < 1e-5


def test_the_trial_rows_have_every_bin_every_id_and_values_outside(one: Saved) -> None:
    X = onnx_file.trial_rows(one.model.estimator)
    assert X.shape == (384, 5) and X.dtype == np.float32
    np.testing.assert_array_equal(X, onnx_file.trial_rows(one.model.estimator))
    for j, n_ids in ((3, 4), (4, 9)):
        assert set(X[:, j]) == set(range(-1, n_ids + 1))
    embedding = one.model.estimator.network.numbers
    for j in range(3):
        lower = embedding.lower[j][embedding.lower[j] < 1e38].numpy()
        upper = lower + embedding.width[j][: len(lower)].numpy()
        assert X[:, j].min() < lower[0] - 100 and X[:, j].max() > upper[-1] + 100
        assert all(((X[:, j] > a) & (X[:, j] < b)).any() for a, b in zip(lower, upper, strict=True))


@pytest.mark.parametrize("raw", [b"", b"no model", b"\x08\x01" * 50])
def test_a_file_that_is_not_onnx_is_refused_by_name(
    raw: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / NAME).write_bytes(raw)
    with pytest.raises(
        ArtifactError, match=r"(cannot load estimator\.onnx|estimator\.onnx is not a network exported by gpupipe): ."
    ):
        open_session((tmp_path / NAME).read_bytes(), NAME)
    assert capfd.readouterr().err == ""


def test_a_file_that_takes_or_gives_something_else_is_refused(one: Saved) -> None:
    session = open_session((one.folder / NAME).read_bytes(), NAME)
    check_session(session, NAME, 5, 1)
    for n_columns, n_outputs in ((6, 1), (5, 2)):
        with pytest.raises(ArtifactError, match="does not match the model"):
            check_session(session, NAME, n_columns, n_outputs)


def another_operator(model: Any) -> None:
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "RandomUniformLike"


def more_columns(model: Any) -> None:
    model.graph.initializer[0].dims[0] += 1


def texts(model: Any) -> None:
    model.graph.initializer[0].data_type = onnx.TensorProto.STRING


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (another_operator, "the operator 'RandomUniformLike', which gpupipe does not export"),
        (more_columns, r"a tensor of shape \(.*\) in .* bytes"),
        (texts, "a tensor of the non-numeric type 8"),
    ],
)
def test_a_file_with_unexpected_operators_is_refused_before_onnx_runtime_reads_it(
    change: Callable[[Any], None], message: str, one: Saved
) -> None:
    model = onnx.load(one.folder / NAME)
    change(model)
    with pytest.raises(ArtifactError, match=rf"estimator\.onnx is not a network exported by gpupipe: it has {message}"):
        open_session(model.SerializeToString(), NAME)


def test_a_graph_that_fails_on_rows_is_a_fault_of_the_model(one: Saved) -> None:
    model = onnx.load(one.folder / NAME)
    model.graph.node.add(op_type="Reshape", input=["X", "elsewhere"], output=["unused"])
    model.graph.initializer.add(name="elsewhere", data_type=7, dims=[1], int64_data=[7])
    model.graph.output.add(name="unused").type.tensor_type.elem_type = 1
    session = open_session(model.SerializeToString(), NAME)
    with pytest.raises(ValueError, match=r"ONNX Runtime failed: .*Reshape"):
        scores(session, np.zeros((3, 5)), 1)
    with pytest.raises(ValueError, match=r"got float32 of shape \(3, 1\)"):
        scores(open_session((one.folder / NAME).read_bytes(), NAME), np.zeros((3, 5)), 2)


def test_a_file_with_weights_in_another_file_is_refused(one: Saved, tmp_path: Path) -> None:
    model = onnx.load(one.folder / NAME)
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(bytes(1 << 16))
    weights = model.graph.initializer[0]
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.ClearField("raw_data")
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "../secret"
    (tmp_path / "model" / NAME).write_bytes(model.SerializeToString())
    with pytest.raises(
        ArtifactError, match=r"estimator\.onnx is not a network exported by gpupipe: it reads weights from another file"
    ):
        open_session((tmp_path / "model" / NAME).read_bytes(), NAME)
