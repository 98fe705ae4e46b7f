"""Predictions and files of networks, against the independent implementation in `networks`."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as given_any
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from gpupipe.backends import choose
from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.neural import architecture
from gpupipe.models.neural.files.architecture import NAME, read_architecture, write_architecture
from gpupipe.models.neural.files.weights import read_weights, write_weights
from gpupipe.models.neural.fitted.pytorch import FittedNeural
from gpupipe.tasks import Task
from tests.examples import examples
from tests.models.folder_files import load_fitted
from tests.models.networks import KINDS, OUTPUTS, Reference, fitted, given, rows

WEIGHTS = FittedNeural.file
TASKS = tuple(OUTPUTS)


def save(model: FittedNeural, folder: Path) -> dict[str, Any]:
    """Write all but the ONNX file, which takes seconds."""
    write_weights(model.estimator, folder / WEIGHTS)
    write_architecture(folder / NAME, model.estimator.architecture, model.task)
    classes = list(model.classes)
    described = {"feature_names": list(model.feature_names), "n_classes": model.n_classes, "classes": classes}
    return {"library": "torch", "task": model.task, "files": [WEIGHTS, NAME], **described}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_formulas_in_float64(kind: str, task: Task) -> None:
    model = fitted(kind, task)
    X = rows(model, 500)
    score = Reference(model).scores(X)
    if task == "regression":
        expected = 2_000.0 + 12.5 * score[:, 0]
    elif task == "binary":
        expected = 1.0 / (1.0 + np.exp(-score[:, 0]))
    else:
        expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    got = given(model, X)
    assert got.dtype == np.float64
    assert expected.std() > 0.05  # weights at which the answers differ
    np.testing.assert_allclose(got, expected, atol=1e-5 * (12.5 if task == "regression" else 1.0))


@pytest.mark.parametrize(("n_numbers", "cardinalities"), [(0, (4, 9)), (3, ()), (1, ()), (0, (2,))])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_numbers_or_without_categories_is_predicted_too(
    kind: str, n_numbers: int, cardinalities: tuple[int, ...], tmp_path: Path
) -> None:
    model = fitted(kind, "binary", n_numbers, cardinalities)
    X = rows(model, 60)
    score = Reference(model).scores(X)[:, 0]
    np.testing.assert_allclose(given(model, X), 1.0 / (1.0 + np.exp(-score)), atol=1e-5)
    again = load_fitted(tmp_path, save(model, tmp_path))
    np.testing.assert_array_equal(given(again, X), given(model, X))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_predicts_the_same_in_any_batch_up_to_1e_6(kind: str) -> None:
    model = fitted(kind, "binary")
    X = rows(model, 4096)
    together = given(model, X)
    for size in (1, 2, 3, 7, 9, 64, 1000):
        for start in range(0, 4096, 1024):
            part = slice(start, start + size)
            assert np.abs(given(model, X[part]) - together[part]).max() <= 1e-6


@torch.no_grad()
def test_a_value_contributes_the_fraction_of_each_bin_it_has_passed() -> None:
    embedding = fitted("mlp", "binary", n_numbers=1).estimator.network.numbers
    embedding.set_edges([torch.tensor([-1.0, 0.0, 4.0])])
    embedding.weight[0] = torch.eye(6, 8)  # the shares themselves
    embedding.bias.zero_()
    got = embedding(torch.tensor([[-2.0], [-0.25], [0.0], [1.0], [9.0]]))[:, 0, :2]
    assert got.tolist() == [[0.0, 0.0], [0.75, 0.0], [1.0, 0.0], [1.0, 0.25], [1.0, 1.0]]


def test_any_memory_layout_predicts_the_same_and_is_unchanged() -> None:
    model = fitted("mlp", "multiclass")
    X = rows(model, 300)
    expected = given(model, X)
    wide = np.asfortranarray(np.column_stack([X[::-1], X]))
    forms = [np.ascontiguousarray(X), wide[::-1, :5], wide[:, 5:], np.repeat(X, 2, axis=0)[::2], X.astype(">f4")]
    for form in forms:
        form.flags.writeable = False
        before = form.tobytes()
        np.testing.assert_array_equal(given(model, form), expected)
        assert form.tobytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_rows_predict_the_same_as_all_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(kind, "regression")
    X = rows(model, 100)
    whole = given(model, X)
    monkeypatch.setattr(architecture, "BLOCK_BYTES", 1)
    assert model.estimator.architecture.rows_per_block == 1
    np.testing.assert_allclose(given(model, X), whole, rtol=1e-6)
    assert len(given(model, X[:0])) == 0


def test_an_id_that_no_program_gives_is_taken_for_a_missing_value() -> None:
    model = fitted("mlp", "binary")
    X = rows(model, 6)
    X[:, 3] = [-1.0, 4.0, 3e9, np.inf, -np.inf, np.nan]
    got = given(model, X)
    X[:, 3] = 0.0
    np.testing.assert_array_equal(got, given(model, X))


def test_a_class_without_training_rows_gets_probability_zero(tmp_path: Path) -> None:
    model = replace(fitted("mlp", "multiclass"), n_classes=4, classes=(0, 2, 3))
    again = load_fitted(tmp_path, save(model, tmp_path))
    probability = given(again, rows(model, 20))
    assert probability.shape == (20, 4)
    assert (probability[:, 1] == 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_network_of_a_device_predicts_there_and_is_kept_as_the_hosts(device: str, tmp_path: Path) -> None:
    model, backend = fitted("tabm", "multiclass"), choose(device)
    estimator = copy.deepcopy(model.estimator).to("cuda" if device == "gpu" else "cpu")
    there = replace(model, estimator=estimator, backend=backend)
    X = rows(model, 500)
    np.testing.assert_allclose(given(there, backend.to_device(X)), given(model, X), atol=1e-4)
    again = load_fitted(tmp_path, there.save(tmp_path))
    for portable in (there.portable(), again):
        np.testing.assert_array_equal(given(portable, X), given(model, X))


def test_a_network_of_the_host_is_its_own_portable_form_and_has_no_importances() -> None:
    model: FittedModel = fitted("mlp", "binary")
    assert model.portable() is model
    assert model.importances() is None


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_read_back_from_its_files_bit_for_bit(kind: str, task: Task, tmp_path: Path) -> None:
    model = fitted(kind, task)
    generator = torch.get_rng_state()
    again = load_fitted(tmp_path, save(model, tmp_path))
    assert torch.equal(torch.get_rng_state(), generator)
    assert not again.estimator.training
    X = rows(model, 1000)
    np.testing.assert_array_equal(given(again, X), given(model, X))
    here, there = model.estimator.state_dict(), again.estimator.state_dict()
    assert list(here) == list(there)
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(fitted("tabm", "regression"), tmp_path / name)
        written.append([(tmp_path / name / file).read_bytes() for file in (WEIGHTS, NAME)])
    assert written[0] == written[1]


def cut(share: float) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        raw = path.read_bytes()
        path.write_bytes(raw[: int(share * len(raw))])

    return apply


def replaced(raw: bytes) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.write_bytes(raw)

    return apply


def tensors(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        found = load_file(path)
        change(found)
        save_file({name: value.contiguous() for name, value in found.items()}, path)

    return apply


HEAD = "network.head.weight"
DAMAGES = {
    "empty": replaced(b""),
    "cut in its header": cut(0.02),
    "cut in its data": cut(0.9),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "pickle": replaced(b"\x80\x04\x95" + b"\0" * 64),
    "a header of 2 to the 60 bytes": replaced(struct.pack("<Q", 1 << 60) + b"{}"),
    "a malformed header": replaced(struct.pack("<Q", 8) + b"[[[[[[[["),
    "a tensor less": tensors(lambda found: found.pop(HEAD)),
    "a tensor more": tensors(lambda found: found.update(more=torch.zeros(3))),
    "a tensor of another shape": tensors(lambda found: found.update({HEAD: found[HEAD].T})),
    "a tensor of another type": tensors(lambda found: found.update({HEAD: found[HEAD].half()})),
    "a weight of double precision": tensors(lambda found: found.update({HEAD: found[HEAD].double()})),
    "NaN": tensors(lambda found: found[HEAD].fill_(float("nan"))),
    "infinity": tensors(lambda found: found["scale"].fill_(float("inf"))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_weights_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    model = fitted("mlp", "regression")
    description = save(model, tmp_path)
    DAMAGES[damage](tmp_path / WEIGHTS)
    with pytest.raises(ArtifactError, match=r"estimator\.safetensors does not match the network: ."):
        load_fitted(tmp_path, description)


def test_the_message_names_the_tensor_with_expected_and_found_shape(tmp_path: Path) -> None:
    description = save(fitted("mlp", "multiclass"), tmp_path)
    DAMAGES["a tensor of another shape"](tmp_path / WEIGHTS)
    with pytest.raises(
        ArtifactError, match=r"network\.head\.weight: expected torch.float32 of shape \(3, 24\); got .*\(24, 3\)"
    ):
        load_fitted(tmp_path, description)


HOSTILE = [
    {"kind": "lstm"}, {"kind": ["mlp"]}, {"depth": 10**9}, {"depth": 0}, {"depth": True}, {"width": 24.0},
    {"width": 0}, {"n_numbers": -1}, {"n_numbers": 10**400}, {"n_bins": 0}, {"n_bins": "6"}, {"heads": 0},
    {"cardinalities": 5}, {"cardinalities": [4, 0]}, {"cardinalities": [4, 1 << 40]}, {"cardinalities": [4, None]},
    {"dropout": 1.0}, {"dropout": float("nan")}, {"dropout": 10**400}, {"n_outputs": 2}, {"n_numbers": 0},
    {"n_numbers": 0, "cardinalities": []}, {"kind": "ft_transformer", "heads": 3}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_an_impossible_architecture_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    description = save(fitted("mlp", "multiclass"), tmp_path)
    values = json.loads((tmp_path / NAME).read_text())
    values["network"].update(change)
    (tmp_path / NAME).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"architecture\.json does not match the model: ."):
        load_fitted(tmp_path, description)


def test_an_enormous_network_is_refused_by_the_shapes_in_the_header_before_memory_is_taken(tmp_path: Path) -> None:
    model = fitted("mlp", "regression", n_numbers=3, cardinalities=())
    write_weights(model.estimator, tmp_path / WEIGHTS)
    enormous = replace(
        model.estimator.architecture, n_bins=4096, n_numbers=1 << 20, embedding_size=1 << 14, width=1 << 16, depth=256,
        cardinalities=(1 << 24,) * 1000,
    )  # fmt: skip
    assert enormous.n_numbers * enormous.n_bins * enormous.embedding_size * 4 > 1 << 47  # no machine has it
    with pytest.raises(ArtifactError, match=r"unknown|missing|expected torch.float32 of shape"):
        read_weights((tmp_path / WEIGHTS).read_bytes(), WEIGHTS, enormous, "regression")


NO_ARCHITECTURES = [b"", b"null", b"[" * 100_000, b"{}", b'{"format": "gpupipe-network", "format_version": 2}']


@pytest.mark.parametrize("raw", NO_ARCHITECTURES)
def test_a_malformed_architecture_is_refused(raw: bytes, tmp_path: Path) -> None:
    description = save(fitted("mlp", "binary"), tmp_path)
    (tmp_path / NAME).write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"architecture\.json"):
        load_fitted(tmp_path, description)


def test_a_large_architecture_file_is_not_parsed(tmp_path: Path) -> None:
    description = save(fitted("mlp", "binary"), tmp_path)
    with (tmp_path / NAME).open("ab") as file:
        file.write(b" " * (32 << 20))
    with pytest.raises(ArtifactError, match="larger than 32 MiB"):
        load_fitted(tmp_path, description)


@pytest.mark.parametrize(
    "change", [{"task": "regression"}, {"feature_names": ["a"]}, {"classes": [0, 1]}, {"classes": [0, 1, 7]}], ids=str
)
def test_a_network_of_another_model_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    description = save(fitted("mlp", "multiclass"), tmp_path)
    with pytest.raises(ArtifactError, match=r"architecture\.json|has no classes|class codes in"):
        load_fitted(tmp_path, description | change)


@pytest.mark.parametrize("name", [WEIGHTS, NAME])
def test_a_missing_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    description = save(fitted("mlp", "binary"), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ArtifactError, match=name):
        load_fitted(tmp_path, description)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("network")


@examples(150)
@given_any(name=st.sampled_from([WEIGHTS, NAME]), place=st.integers(0, 1500), flip=st.integers(1, 255))
def test_a_changed_byte_gives_a_network_or_a_refusal(folder: Path, name: str, place: int, flip: int) -> None:
    model = fitted("ft_transformer", "binary")
    description = save(model, folder)
    raw = bytearray((folder / name).read_bytes())
    raw[place % len(raw)] ^= flip
    (folder / name).write_bytes(raw)
    try:
        again = load_fitted(folder, description)
    except ArtifactError as error:
        assert name in error.what or WEIGHTS in error.what
    else:
        assert given(again, rows(model, 3)).shape == (3,)


def test_the_architecture_is_read_back_unchanged(tmp_path: Path) -> None:
    model = fitted("ft_transformer", "multiclass")
    description = save(model, tmp_path)
    again = read_architecture((tmp_path / NAME).read_bytes(), NAME, Description.of(description))
    assert asdict(again) == asdict(model.estimator.architecture)
