"""Signatures of models, their provenance and bill of materials, and the repetition of runs."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.artifact import ArtifactReader, manifest
from gpupipe.cli import main
from gpupipe.pipeline.provenance.reproduction import reproduce_run
from gpupipe.pipeline.provenance.signer import sign_model
from gpupipe.pipeline.provenance.statement import trained_on
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings

pytestmark = pytest.mark.needs("model_signing")
CONFIG = """\
source: {path: ["t.csv"], target: y, id: id, prepare: "hook.py:same"}
models: [xgboost: {n_estimators: 4}]
evaluate: {by: [plan]}
report: {enabled: false}
track: {tags: {password: "${SECRET_OF_RUN}"}}
"""
PARTS = (
    "README.md", "bom.json", "drift.json", "drift.npz", "estimator.ubj", "features.json", "held_out.npz",
    "learned.json", "levels.json", "manifest.json", "model.sig", "parity.json", "parity.npz", "parity_rows.json",
    "program.npz", "provenance.json", "schema.json", "training_summary.json",
)  # fmt: skip


class Keys:
    """Private key with its public one, and a certificate that an authority has issued."""

    def __init__(self, folder: Path, password: str = "") -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key, authority = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
        self.private, self.public, self.leaf, self.root = (folder / name for name in ("key", "key.pub", "leaf", "root"))
        folder.mkdir(parents=True)
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        how: Any = serialization.NoEncryption()
        if password:
            how = serialization.BestAvailableEncryption(password.encode())
        self.private.write_bytes(key.private_bytes(pem, pkcs8, how))
        public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.public.write_bytes(public)
        now = datetime.now(UTC)

        def certificate(name: str, owner: Any, is_authority: bool) -> bytes:
            usage = dict.fromkeys(
                ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
                 "decipher_only"), False
            )  # fmt: skip
            built = (
                x509.CertificateBuilder()
                .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
                .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")]))
                .public_key(owner.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(days=1))
                .not_valid_after(now + timedelta(days=1))
                .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
                .add_extension(
                    x509.KeyUsage(True, key_cert_sign=is_authority, crl_sign=is_authority, **usage), critical=True
                )
            )
            return built.sign(authority, hashes.SHA384()).public_bytes(pem)

        self.root.write_bytes(certificate("root", authority, True))
        self.leaf.write_bytes(certificate("leaf", key, False))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys") / "own")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of a run, and the run in `run`."""
    folder = tmp_path_factory.mktemp("provenance")
    rows = [f"{i},{i % 50},{'ab'[i % 2]},{'yes' if i % 50 > 25 else 'no'}" for i in range(240)]
    (folder / "t.csv").write_text("\n".join(["id,age,plan,y", *rows, ""]))
    (folder / "hook.py").write_text("def same(frame):\n    return frame\n")
    (folder / "c.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SECRET_OF_RUN", "tell-no-one-of-it")
        assert main(["run", "c.yaml", "-o", "run", "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def signed(workplace: Path, keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run with a signed model."""
    folder = tmp_path_factory.mktemp("signed") / "run"
    shutil.copytree(workplace / "run", folder)
    sign_model(folder, keys.private)
    return folder


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    """A copy of the signed model, to change."""
    return Path(shutil.copytree(signed / "model", tmp_path / "model"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swap(folder: Path) -> None:
    one, two = folder / "levels.json", folder / "learned.json"
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def add_folder(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("")


def link_signature(folder: Path) -> None:
    (folder / "model.sig").rename(folder.parent / "elsewhere")
    (folder / "model.sig").symlink_to(folder.parent / "elsewhere")


def link_file(folder: Path) -> None:
    (folder / "link.json").symlink_to("levels.json")


CHANGES: dict[str, Callable[[Path], Any]] = {
    "two files swapped": swap,
    "a file removed": lambda folder: (folder / "held_out.npz").unlink(),
    "a card removed": lambda folder: (folder / "README.md").unlink(),
    "a file added": lambda folder: (folder / "more.json").write_text("{}"),
    "a file added that git ignores": lambda folder: (folder / ".gitignore").write_text(""),
    "a folder added": add_folder,
    "a link added": link_file,
    "not signed": lambda folder: (folder / "model.sig").unlink(),
    "an empty signature": lambda folder: (folder / "model.sig").write_bytes(b""),
    "a link as signature": link_signature,
}


def test_a_signed_model_has_these_files(signed: Path) -> None:
    assert {path.name for path in (signed / "model").iterdir()} == set(PARTS)
    files = [signed / "model" / name for name in ("model.sig", "bom.json", "levels.json")]
    modes = {stat.S_IMODE(file.stat().st_mode) for file in files}
    assert len(modes) == 1  # readers of the model can verify it


@pytest.mark.parametrize("change", [*CHANGES, *PARTS])
def test_every_change_of_a_signed_model_is_refused_before_anything_is_parsed(
    copy: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    CHANGES.get(change, lambda folder: flip(folder / change))(copy)
    monkeypatch.setattr(manifest, "parse_part", lambda *args: pytest.fail("a file was parsed"))
    with pytest.raises(gp.ArtifactError):
        ArtifactReader(copy, (str(keys.public),))


def test_models_of_trusted_keys_are_opened_in_every_way(
    signed: Path, keys: Keys, tmp_path: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, trust = Keys(tmp_path / "other"), str(keys.public)
    model = gp.load_model(signed, trust=[other.public, keys.public])
    row = {"id": 1, "age": 40, "plan": "a"}
    assert model.predict(row)[0] == "yes" and model.verify().passed
    assert gp.load_scorer(signed, trust=keys.public).predict(row) == "yes"
    served = ServeSettings.from_text(ServeSettings(str(signed), trust=(trust,)).to_text())
    assert ServedModel.load(served.model, trust=served.trust).version == model.manifest["manifest_sha256"][:12]
    calls = [
        ["predict", "MODEL", "t.csv", "-o", "OUT"], ["explain", "MODEL", "t.csv", "-o", "OUT"], ["verify", "MODEL"],
        ["drift", "MODEL", "t.csv"], ["evaluate", "MODEL", "t.csv"], ["diff", "MODEL", "MODEL"],
        ["verify", "MODEL", "--untrusted"], ["serve", "MODEL"],
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        for i, call in enumerate(calls):
            words = [{"MODEL": str(signed), "OUT": str(tmp_path / f"{i}.csv")}.get(word, word) for word in call]
            assert main([*words, "--trust", str(other.public)]) == 5
            assert "not made with a trusted key" in capsys.readouterr().err
            if call[0] != "serve":
                assert main([*words, "--trust", trust]) == 0
    with pytest.raises(gp.ArtifactError, match="not made with a trusted key"):
        gp.load_model(signed, trust=other.public, untrusted=True)
    assert main(["verify", str(signed), "--key", str(tmp_path / "absent")]) == 2
    with pytest.raises(gp.ConfigError, match="expected trusted keys"):
        gp.load_model(signed, trust=[])


def test_the_command_of_the_library_verifies_the_signature(signed: Path, keys: Keys, copy: Path) -> None:
    flip(copy / "README.md")
    for folder, code in ((signed / "model", 0), (copy, 1)):
        command = [sys.executable, "-m", "model_signing", "verify", "key", str(folder)]
        command += ["--signature", str(folder / "model.sig"), "--public_key", str(keys.public)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def test_certificates_and_passwords(copy: Path, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["sign", str(copy), "--key", str(keys.private)]) == 2  # signed already
    call = ["sign", str(copy), "--key", str(keys.private), "--certificate", str(keys.leaf), "--force"]
    assert main(call) == 0
    gp.load_model(copy, trust=keys.root)
    other = Keys(tmp_path / "other", "secret")
    for trust in (other.root, keys.public):
        with pytest.raises(gp.ArtifactError):
            gp.load_model(copy, trust=trust)
    call = ["sign", str(copy), "--key", str(other.private), "--force"]
    before = (copy / "model.sig").read_bytes()
    assert main(call) == 2 and (copy / "model.sig").read_bytes() == before
    monkeypatch.setenv("GPUPIPE_KEY_PASSWORD", "secret")
    assert main(call) == 0
    gp.load_model(copy, trust=other.public)


def test_a_damaged_model_is_not_signed_and_nothing_is_left(copy: Path, keys: Keys) -> None:
    (copy / "model.sig").unlink()
    flip(copy / "levels.json")
    before = sorted(copy.iterdir())
    assert main(["sign", str(copy), "--key", str(keys.private), "--force"]) == 5
    assert sorted(copy.iterdir()) == before


def test_an_exported_and_a_promoted_model_stay_signed(signed: Path, keys: Keys, tmp_path: Path) -> None:
    assert main(["export", str(signed), "-o", str(tmp_path / "copy"), "--quiet"]) == 0
    assert main(["promote", str(tmp_path / "models"), str(signed)]) == 0
    for path in ("copy", "models"):
        gp.load_model(tmp_path / path, trust=keys.public)
    kept = (tmp_path / "copy/provenance.json").read_bytes()
    assert main(["sign", str(tmp_path / "copy"), "--key", str(keys.private), "--force"]) == 0
    assert (tmp_path / "copy/provenance.json").read_bytes() == kept  # that of the run, which the copy does not have


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_hostile_signature_is_refused_or_signs_the_same(signed: Path, keys: Keys, data: st.DataObject) -> None:
    path = signed / "model" / "model.sig"
    raw = path.read_bytes()
    document = json.loads(raw)
    kind = data.draw(st.sampled_from(["bytes", "entry", "cut", "deep"]))
    if kind == "entry":
        parts = [document, *(value for value in document.values() if isinstance(value, dict))]
        part = data.draw(st.sampled_from(parts))
        part[data.draw(st.sampled_from(sorted(part)))] = data.draw(st.sampled_from([None, 1, "", [], {}, "x", [{}]]))
        edited = json.dumps(document).encode()
    elif kind == "bytes":
        edited = data.draw(st.binary(max_size=200))
    else:
        edited = raw[: data.draw(st.integers(0, len(raw) - 1))] if kind == "cut" else b"[" * 100_000
    try:
        path.write_bytes(edited)
        ArtifactReader(path.parent, (str(keys.public),))
        assert json.loads(edited)["dsseEnvelope"] == json.loads(raw)["dsseEnvelope"]  # only that is signed
    except gp.ArtifactError:
        pass
    finally:
        path.write_bytes(raw)


def test_the_provenance_is_an_in_toto_statement_of_what_the_model_was_made_from(signed: Path, workplace: Path) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import resource_descriptor, statement, statement_pb2

    text = (signed / "model/provenance.json").read_text()
    parsed = json_format.Parse(text, statement_pb2.Statement())  # refuses unknown fields
    statement.Statement.copy_from_pb(parsed).validate()
    document = json.loads(text)
    built_by = json_format.ParseDict(document["predicate"], provenance_pb2.Provenance())
    for each in built_by.build_definition.resolved_dependencies:
        resource_descriptor.ResourceDescriptor.copy_from_pb(each).validate()
    digests = {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
    assert digests == {
        name: hashlib.sha256((signed / "model" / name).read_bytes()).hexdigest()
        for name in set(PARTS) - {"model.sig", "provenance.json", "bom.json"}
    }
    built = document["predicate"]["buildDefinition"]
    sources = {each["name"]: each["digest"]["sha256"] for each in built["resolvedDependencies"] if "digest" in each}
    expected = {name: hashlib.sha256((workplace / name).read_bytes()).hexdigest() for name in ("t.csv", "hook.py")}
    assert sources == expected
    assert f"pkg:pypi/gpupipe@{gp.__version__}" in {each.get("uri") for each in built["resolvedDependencies"]}
    assert built["externalParameters"]["config"]["models"][0]["params"]["n_estimators"] == 4
    assert built["internalParameters"]["seed"] == 0 and built["internalParameters"]["threads"] >= 1
    assert not any("tell-no-one" in path.read_text() for path in (signed / "model").glob("*.json"))


def test_the_bill_of_materials_is_valid_and_has_the_model_card(signed: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (signed / "model/bom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.replace('"machine-learning-model"', '"model"'))
    document = json.loads(text)
    card = document["metadata"]["component"]["modelCard"]
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    assert {(each["type"], each.get("slice")) for each in metrics} >= {("roc_auc", None), ("roc_auc", "plan = a")}
    assert card["modelParameters"]["modelArchitecture"] == "xgboost"
    refs = [each["bom-ref"] for each in document["components"]]
    assert document["dependencies"][0]["dependsOn"] == refs and len(set(refs)) == len(refs)


def test_a_run_is_repeated_to_the_last_bit(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("SECRET_OF_RUN", "tell-no-one-of-it")
    before = sorted(workplace.rglob("*"))
    assert main(["reproduce", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_equal"] and found["differs"] == [] and found["n_files"] >= 14
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("name", ["t.csv", "hook.py"])
def test_a_changed_source_is_named_before_anything_is_trained(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shutil.copytree(workplace, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("SECRET_OF_RUN", "tell-no-one-of-it")
    monkeypatch.setattr("gpupipe.pipeline.provenance.reproduction.run_pipeline", lambda *_: pytest.fail("trained"))
    with open(name, "a") as file:
        file.write("\n")
    assert main(["reproduce", "run"]) == 5
    assert f"sources have changed since the run: {name}" in capsys.readouterr().err


def test_a_difference_names_the_first_file_and_the_likely_reasons(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(workplace, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("SECRET_OF_RUN", "tell-no-one-of-it")
    settings_of_run = Path("run/config.yaml").read_text()
    Path("run/config.yaml").write_text(settings_of_run.replace("n_estimators: 4", "n_estimators: 5"))
    reader = ArtifactReader(Path("run/model"))
    libraries = {**reader.manifest["libraries"], "xgboost-cpu": "3.0.0"}
    Path("run/model/manifest.json").write_bytes(manifest.render({**reader.manifest, "libraries": libraries}))
    threads = trained_on(reader).get("threads", 1)  # processes of the tests may have fewer than there are cores
    other = 1 if threads > 1 else 2
    monkeypatch.setenv("GPUPIPE_THREADS", str(other))
    assert main(["reproduce", "run"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("differs first in model/estimator.ubj: ")
    assert any(line.startswith("likely       version of xgboost-cpu: 3.0.0, now ") for line in lines)
    assert f"likely       threads: {threads}, now {other}" in lines


def test_runs_that_cannot_be_repeated_are_refused(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"age": range(100), "y": [0] * 50 + [1] * 50})
    pipeline = gp.Pipeline(frame, target="y", models=["gaussian_nb"], report={"enabled": False})
    run = pipeline.run(tmp_path / "run", quiet=True)
    with pytest.raises(gp.ConfigError, match="a table in memory"):
        reproduce_run(run)
