"""Checkpoint file of a neural training: its state after the last epoch."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from gpupipe.errors import LimitError

DIGEST = 32  # bytes of the SHA-256 digest that precedes the content


class Checkpoint:
    """The checkpoint of one training.

    The name of the file is a hash of everything the training depends on, so other data never finds it. `damage` is the
    reason that an existing file could not be read; "" if it could.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path, self.resume = path, resume
        self.damage = ""

    def load(self) -> dict[str, Any] | None:
        """Return the saved state with its tensors on the host; None if there is no file, or it is corrupt."""
        if not self.resume or not self.path.is_file():
            return None
        try:
            content = self.path.read_bytes()
            digest, body = content[:DIGEST], content[DIGEST:]
            if hashlib.sha256(body).digest() != digest:
                raise ValueError("its SHA-256 digest does not match")
            # weights_only: tensors and plain values, no code.
            state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
            return state
        except Exception as error:  # PyTorch's parser raises many types
            self.damage = f"{self.path}: {str(error).splitlines()[0]}"
            return None

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the saved state atomically: a power cut leaves the old state or the new one.

        Raise LimitError if the disk is full, or the folder is not writable.
        """
        body = io.BytesIO()
        torch.save(dict(state), body)
        try:
            self._write(body.getbuffer())
        except FileNotFoundError:  # another run of the same training has just removed the folder
            self._write(body.getbuffer())

    def _write(self, body: memoryview) -> None:
        new = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)  # of an earlier process; "x" follows no link
            with new.open("xb") as file:
                file.write(hashlib.sha256(body).digest())
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise LimitError(
                f"cannot write the checkpoint of the training: {error.strerror}",
                where=str(self.path),
                fix="free disk space, or choose another --output",
            ) from error
