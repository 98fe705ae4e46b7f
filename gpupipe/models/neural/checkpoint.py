"""Checkpoint of a neural training: its state after the last epoch, in one file."""

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

DIGEST = 32  # bytes of SHA-256, before the content


class Checkpoint:
    """The state of one training.

    Parameters
    ----------
    path : Path
        Its name stands for all that the training depends on: one on other data never finds it.
    resume : bool
        Whether the training goes on from what is there.

    Attributes
    ----------
    damage : str
        Why what was there could not be read; "" where it could.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path, self.resume = path, resume
        self.damage = ""

    def load(self) -> dict[str, Any] | None:
        """Return what was saved, on the host, or None; what is damaged counts as not there."""
        if not self.resume or not self.path.is_file():
            return None
        try:
            content = self.path.read_bytes()
            digest, body = content[:DIGEST], content[DIGEST:]
            if hashlib.sha256(body).digest() != digest:
                raise ValueError("its content is not what was written")
            # Tensors and plain values; nothing in the file can run.
            state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
            return state
        except Exception as error:  # PyTorch raises whatever its parser meets
            self.damage = f"{self.path}: {str(error).splitlines()[0]}"
            return None

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace what was saved; a power cut leaves the old state or the new one.

        Raises
        ------
        LimitError
            If the disk is full, or the folder cannot be written to.
        """
        body = io.BytesIO()
        torch.save(dict(state), body)
        try:
            self._write(body.getbuffer())
        except FileNotFoundError:  # a run of the same training has just ended, and cleared the folder
            self._write(body.getbuffer())

    def _write(self, body: memoryview) -> None:
        new = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
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
                f"the state of the training cannot be kept: {error.strerror}",
                where=str(self.path),
                fix="make room, or name another --output",
            ) from error
