"""Tests of `ArtifactWriter` and `ArtifactReader`."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.errors import ArtifactError
from tests.examples import examples

LEVELS = {"city": ["a\nb", "Zürich", "\U0001f600"]}
ARRAYS: dict[str, np.ndarray] = {
    "medians": np.array([1.5, np.nan], dtype=np.float32),
    "file": np.arange(6).reshape(2, 3),
    "x/y": np.array("é"),
}


def write_model(folder: Path) -> Path:
    writer = ArtifactWriter(folder)
    writer.json("features.json", {"ops": [{"op": "impute"}], "é": None})
    writer.arrays("state.npz", ARRAYS)
    writer.json("levels.json", LEVELS, compact=True)
    writer.file("estimator.ubj").write_bytes(bytes(range(256)) * 4)
    writer.finish({"schema": [{"name": "é\u2028"}], "threshold": 0.1 + 0.2}, libraries={"numpy": "2.4.0"})
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("artifact") / "model")


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def rewrite_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and recompute its hash."""
    values = json.loads((folder / "manifest.json").read_text())
    del values["manifest_sha256"]
    change(values)
    dumped = (json.dumps(values, indent=2) + "\n").encode()
    values["manifest_sha256"] = hashlib.sha256(dumped).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(values, indent=2) + "\n")


def test_parts_round_trip(model: Path) -> None:
    reader = ArtifactReader(model)
    assert reader.json("features.json") == {"ops": [{"op": "impute"}], "é": None}
    assert reader.json("levels.json") == LEVELS
    assert reader.read("estimator.ubj") == bytes(range(256)) * 4
    arrays = reader.arrays("state.npz")
    assert list(arrays) == list(ARRAYS)
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[key], array)
        assert arrays[key].dtype == array.dtype
    assert reader.names() == ("estimator.ubj", "features.json", "levels.json", "state.npz")


@examples(60)
@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0, max_dims=3)))
def test_arrays_round_trip_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("arrays") / "model"
    writer = ArtifactWriter(folder)
    writer.arrays("a.npz", {"a": array, "fortran": np.array(array, order="F")})
    writer.finish({})
    back = ArtifactReader(folder).arrays("a.npz")
    for key in ("a", "fortran"):
        assert (back[key].dtype, back[key].shape) == (array.dtype, array.shape)
        assert back[key].tobytes() == array.tobytes()
    assert np.load(folder / "a.npz", allow_pickle=False)["a"].tobytes() == array.tobytes()  # a plain npz file


def test_the_manifest_has_format_versions_time_and_the_hash_and_size_of_each_file(model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    assert (manifest["format"], manifest["format_version"]) == ("gpupipe-model", 2)
    assert manifest["libraries"] == {"numpy": "2.4.0"}
    assert manifest["created"].endswith("+00:00")
    assert manifest["threshold"] == 0.1 + 0.2
    for name, entry in manifest["files"].items():
        content = (model / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert set(manifest["files"]) == {path.name for path in model.iterdir()} - {"manifest.json"}


@pytest.mark.parametrize("name", ["manifest.json", "features.json", "state.npz", "levels.json", "estimator.ubj"])
def test_a_flipped_byte_anywhere_raises_an_error_that_names_the_file(copy: Path, name: str) -> None:
    chance = random.Random(name)
    path = copy / name
    original = path.read_bytes()
    everywhere = range(len(original))
    positions = everywhere if name == "manifest.json" else chance.sample(everywhere, min(200, len(original)))
    for position in positions:
        changed = bytearray(original)
        changed[position] ^= chance.randrange(1, 256)
        path.write_bytes(changed)
        with pytest.raises(ArtifactError) as caught:
            ArtifactReader(copy)
        assert name in caught.value.what
    path.write_bytes(original)
    ArtifactReader(copy)


@pytest.mark.parametrize(("old", "new"), [(" ", "\t"), (" ", "\n"), (" ", "  "), ("n", "\\u006e"), ("\n", "\r\n")])
def test_a_manifest_with_equal_values_but_other_bytes_is_rejected(copy: Path, old: str, new: str) -> None:
    path = copy / "manifest.json"
    text = path.read_text()
    path.write_bytes(text.replace(old, new, 1).encode())
    assert json.loads(path.read_text()) == json.loads(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        ArtifactReader(copy)


@examples(60)
@given(st.binary(max_size=300))
def test_random_bytes_as_a_manifest_are_rejected(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "manifest.json").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        ArtifactReader(folder)


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"1" * 5000, b"null", b"{}", b"", b"\xff\xfe", b" " * (65 * 2**20)])
def test_a_malicious_manifest_is_rejected(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        ArtifactReader(tmp_path)


def test_missing_truncated_and_extended_files_raise_errors_that_name_them(copy: Path) -> None:
    path = copy / "estimator.ubj"
    content = path.read_bytes()
    for spoiled in (content[:-1], content + b"\0", b""):
        path.write_bytes(spoiled)
        with pytest.raises(ArtifactError, match=r"estimator\.ubj has"):
            ArtifactReader(copy)
    path.unlink()
    with pytest.raises(ArtifactError, match=r"estimator\.ubj is missing"):
        ArtifactReader(copy)


@pytest.mark.parametrize("name", ["features.json", "state.npz", "levels.json", "estimator.ubj"])
def test_a_file_that_is_replaced_after_its_hash_was_checked_is_rejected(copy: Path, name: str) -> None:
    """A process that can write to the folder must not be able to exchange bytes between checking and parsing."""
    reader = ArtifactReader(copy)
    content = (copy / name).read_bytes()
    changes: list[Callable[[Path], Any]] = [
        lambda path: path.write_bytes(bytes(len(content))),
        lambda path: path.write_bytes(content + b" "),
        lambda path: path.symlink_to(copy / "manifest.json"),
        os.mkfifo,  # reading it would block forever
        lambda path: None,
    ]
    for change in changes:
        (copy / name).unlink()
        change(copy / name)
        for read in (reader.json, reader.arrays, reader.read):
            with pytest.raises(ArtifactError, match=rf"{name} (has changed|is missing)"):
                read(name)
        (copy / name).unlink(missing_ok=True)
        (copy / name).write_bytes(content)
    assert reader.read(name) == content


def test_unlisted_files_folders_links_and_pipes_raise_errors_that_name_them(copy: Path) -> None:
    (copy / "extra.pkl").write_bytes(b"x")
    with pytest.raises(ArtifactError, match=r"extra\.pkl is not listed"):
        ArtifactReader(copy)
    (copy / "extra.pkl").unlink()
    (copy / "below").mkdir()
    with pytest.raises(ArtifactError, match="below is not a regular file"):
        ArtifactReader(copy)
    (copy / "below").rmdir()
    for name in ("estimator.ubj", "manifest.json"):
        (copy / name).rename(copy.parent / name)
        (copy / name).symlink_to(copy.parent / name)
        with pytest.raises(ArtifactError, match=name):
            ArtifactReader(copy)
        (copy / name).unlink()
        (copy.parent / name).rename(copy / name)
    os.mkfifo(copy / "pipe")
    with pytest.raises(ArtifactError, match="pipe is not a regular file"):
        ArtifactReader(copy)


def test_a_folder_without_a_manifest_is_not_a_model(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ArtifactError, match=r"manifest\.json is missing"):
            ArtifactReader(folder)


@pytest.mark.parametrize("version", [0, 3, "1", None, True, 1.5])
def test_an_unsupported_format_version_raises_an_error_with_the_supported_ones(copy: Path, version: object) -> None:
    rewrite_manifest(copy, lambda values: values.update(format_version=version))
    with pytest.raises(ArtifactError, match="reads versions 1 to 2"):
        ArtifactReader(copy)


def test_the_error_for_a_later_version_names_the_release_that_wrote_the_model(copy: Path) -> None:
    rewrite_manifest(copy, lambda values: values.update(format_version=9, gpupipe="3.1.0"))
    with pytest.raises(ArtifactError, match=r"version 9; .* versions 1 to 2\n(.*\n)*.*'gpupipe==3\.1\.0'"):
        ArtifactReader(copy)


def test_an_earlier_version_is_migrated_step_by_step(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite_manifest(copy, lambda values: values.update(format_version=1))
    monkeypatch.setattr("gpupipe.artifact.manifest.FORMAT_VERSION", 3)
    steps = {
        1: lambda values: values | {"steps": ["1 to 2"]},
        2: lambda values: values | {"steps": [*values["steps"], "2 to 3"]},
    }
    monkeypatch.setattr("gpupipe.artifact.manifest.MIGRATIONS", steps)
    assert ArtifactReader(copy).manifest["steps"] == ["1 to 2", "2 to 3"]


def test_another_format_is_rejected(copy: Path) -> None:
    rewrite_manifest(copy, lambda values: values.update(format="another"))
    with pytest.raises(ArtifactError, match="gpupipe-model"):
        ArtifactReader(copy)


@pytest.mark.parametrize("name", ["../secret", "a/b", "a\\b", "..", ".hidden", "", "manifest.json", "a..b", "x" * 300])
def test_reader_and_writer_reject_invalid_part_names(copy: Path, tmp_path: Path, name: str) -> None:
    rewrite_manifest(copy, lambda values: values["files"].update({name: {"sha256": "0" * 64, "bytes": 1}}))
    with pytest.raises(ArtifactError, match="invalid name"):
        ArtifactReader(copy)
    with pytest.raises(ArtifactError, match="invalid part name"):
        ArtifactWriter(tmp_path / "new").json(name, {})


@pytest.mark.parametrize("entry", [None, {}, {"sha256": 1, "bytes": "1"}, {"sha256": "0", "bytes": 1, "x": 1}, [], "x"])
def test_a_malformed_list_of_files_is_rejected(copy: Path, entry: object) -> None:
    rewrite_manifest(copy, lambda values: values["files"].update({"state.npz": entry}))
    with pytest.raises(ArtifactError, match=r"manifest\.json is invalid: files\.state\.npz.*expected"):
        ArtifactReader(copy)


def test_parse_errors_name_the_file(tmp_path: Path) -> None:
    writer = ArtifactWriter(tmp_path / "model")
    for name in ("a.json", "a.npz"):
        writer.file(name).write_bytes(b"PK\x03\x04 neither one nor the other")
    writer.file("objects.npz")
    np.savez(tmp_path / "model" / "objects.npz", a=np.array([{}], dtype=object))
    writer.finish({})
    reader = ArtifactReader(tmp_path / "model")
    for read, name in (
        (reader.json, "a.json"), (reader.arrays, "a.npz"), (reader.arrays, "objects.npz"),
    ):  # fmt: skip
        with pytest.raises(ArtifactError, match=name):
            read(name)
    with pytest.raises(ArtifactError, match=r"no part b\.json"):
        reader.json("b.json")


def test_a_model_directory_contains_no_pickle(model: Path) -> None:
    for path in model.iterdir():
        with path.open("rb") as file, pytest.raises(Exception, match=r".*"):  # pickle raises any error class
            pickle.load(file)


def test_arrays_of_python_objects_are_rejected(tmp_path: Path) -> None:
    writer = ArtifactWriter(tmp_path / "model")
    for number, array in enumerate((np.array([{}], dtype=object), np.zeros(1, dtype=[("a", object)]))):
        with pytest.raises(ArtifactError, match="Python objects"):
            writer.arrays(f"a{number}.npz", {"a": array})


def test_values_that_are_not_json_are_rejected(tmp_path: Path) -> None:
    writer = ArtifactWriter(tmp_path / "model")
    for number, value in enumerate((float("nan"), {"a": float("inf")}, np.arange(2), {1, 2})):
        with pytest.raises(ArtifactError, match=r"cannot write a.* as JSON"):
            writer.json(f"a{number}.json", value)


def test_duplicate_unwritten_and_unregistered_parts_are_rejected(tmp_path: Path) -> None:
    writer = ArtifactWriter(tmp_path / "model")
    writer.json("a.json", 1)
    with pytest.raises(ArtifactError, match="duplicate part"):
        writer.json("a.json", 2)
    path = writer.file("promised.ubj")
    with pytest.raises(ArtifactError, match=r"promised\.ubj"):
        writer.finish({})
    path.write_bytes(b"x")
    (tmp_path / "model" / "unregistered").write_bytes(b"x")
    with pytest.raises(ArtifactError, match="unregistered"):
        writer.finish({})
    with pytest.raises(ArtifactError, match="reserved manifest keys in content: files"):
        writer.finish({"files": {}})


def test_a_model_does_not_overwrite_another(model: Path) -> None:
    with pytest.raises(ArtifactError, match="empty directory"):
        ArtifactWriter(model)


def test_an_unfinished_model_is_rejected(tmp_path: Path) -> None:
    ArtifactWriter(tmp_path / "model").json("a.json", 1)
    with pytest.raises(ArtifactError, match=r"manifest\.json is missing"):
        ArtifactReader(tmp_path / "model")
