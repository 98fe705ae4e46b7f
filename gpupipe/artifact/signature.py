"""Signatures of model directories, in the format of the OpenSSF library model-signing.

A signature is ``model.sig`` in the directory: a Sigstore bundle with the SHA-256 of every other file. Its own command
verifies it too: ``model_signing verify key MODEL --signature MODEL/model.sig --public_key KEY``.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupipe.artifact import manifest
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.files.file import replace_file

PASSWORD = "GPUPIPE_KEY_PASSWORD"  # environment variable with the password of a private key
NEEDED = ("model_signing", "OpenSSL")  # model-signing 1.1.1 imports pyOpenSSL, which it does not require
KEYS = "an elliptic curve (P-256, P-384 or P-521) in PEM"


class ModelSigner:
    """Private key, with the certificate of its owner and the certificates between it and a trusted one, if any.

    Raise ConfigError if the library is not installed, or a file is not a key or certificate.
    """

    def __init__(self, key: Path, certificate: Path | None = None, chain: Sequence[Path] = ()) -> None:
        _require_library(key)
        from model_signing import signing

        password, self._config = os.environ.get(PASSWORD), signing.Config()
        try:
            if certificate is None:
                secret: Any = password and password.encode()  # text according to the library, which passes it on
                self._config.use_elliptic_key_signer(private_key=key, password=secret)
            else:
                links = list(chain) or [certificate]  # the library refuses an empty chain
                self._config.use_certificate_signer(
                    private_key=key, signing_certificate=certificate, certificate_chain=links
                )
        except Exception as error:  # the errors of cryptography and of files have no common base class
            fix = f"name a private key on {KEYS}; {PASSWORD} is its password, without a certificate"
            raise ConfigError(f"the key cannot be used: {error!s:.300}", where=str(key), fix=fix) from error

    def sign(self, folder: Path) -> None:
        """Write the signature of a model directory, which replaces an earlier one."""
        with TemporaryDirectory() as place:
            made = Path(place) / manifest.SIGNATURE
            self._config.set_hashing_config(_hashing()).sign(folder, made)
            with replace_file(folder / manifest.SIGNATURE) as file:
                file.write(made.read_bytes())


def verify_signature(folder: Path, trust: Sequence[str]) -> str:
    """Return the signed SHA-256 of manifest.json, which has the hashes of the parts; the parts are not parsed.

    `trust` are files in PEM: public keys, and certificates that a chain of the signature must lead to. Raise
    ArtifactError unless the owner of one of them has signed exactly the files of the directory; ConfigError if the
    library is not installed, or a file is not a key or certificate.
    """
    verifiers = [_verifier(Path(key)) for key in trust]
    path, problem = folder / manifest.SIGNATURE, "no key is trusted"
    try:
        with manifest.open_plain(path) as file:
            raw = file.read(manifest.MAX_BYTES)
    except OSError as error:
        fix = "use a model that its author has signed with `gpupipe sign`"
        raise ArtifactError(f"the model is not signed: no {path.name}", where=str(folder), fix=fix) from error
    with TemporaryDirectory() as place, redirect_stdout(sys.stderr):  # the library prints warnings
        copy = Path(place) / path.name
        copy.write_bytes(raw)  # the bytes that are verified are those that are read below
        for verifier in verifiers:
            try:
                verifier.set_hashing_config(_hashing()).verify(folder, copy)
                return _signed_manifest(raw)
            except Exception as error:  # a hostile signature raises errors of several libraries
                text = str(error)
                if text.startswith("Signature mismatch"):
                    found = ast.literal_eval(text.removeprefix("Signature mismatch: "))  # texts
                    problem = "; ".join(each.partition(": Expected ")[0] for each in found)
                    break
                problem = "it was not made with a trusted key, or is malformed"
    fix = "do not use it, or add the public key of its author to the trusted ones"
    raise ArtifactError(f"the signature of the model is invalid: {problem:.400}", where=str(folder), fix=fix)


def _verifier(key: Path) -> Any:
    _require_library(key)
    from model_signing import verifying

    config = verifying.Config()
    try:
        if b"BEGIN CERTIFICATE" in key.read_bytes():
            return config.use_certificate_verifier(certificate_chain=[key])
        return config.use_elliptic_key_verifier(public_key=key)
    except Exception as error:  # the errors of cryptography and of files have no common base class
        fix = f"name a public key on {KEYS}, or a certificate"
        raise ConfigError(f"the trusted key cannot be used: {error!s:.300}", where=str(key), fix=fix) from error


def _hashing() -> Any:
    """Return the settings of hashing: every file but the signature, also those that git ignores."""
    from model_signing import hashing

    return hashing.Config().set_ignored_paths(paths=[manifest.SIGNATURE], ignore_git_paths=False)


def _signed_manifest(bundle: bytes) -> str:
    statement = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
    digests = {each["name"]: each["digest"] for each in statement["predicate"]["resources"]}
    return str(digests[manifest.NAME])


def _require_library(key: Path) -> None:
    if not all(map(find_spec, NEEDED)):
        what = "signatures need model-signing and pyOpenSSL, which are not installed"
        raise ConfigError(what, where=str(key), fix="pip install 'gpupipe[sign]'")
