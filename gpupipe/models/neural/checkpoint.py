"""Where a training that was interrupted goes on from: its state after the last epoch, in one file."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from gpupipe.errors import DataError, LimitError
from gpupipe.models.resources import Checkpoints

FORMAT = 1  # of the state: one of another format is never found
DIGEST = 32  # bytes of SHA-256, before the content


class Checkpoint:
    """The state of one training, under a name that says all it depends on: a run on other data never finds it.

    Parameters
    ----------
    checkpoints : Checkpoints
    name : str
        See `fingerprint`.
    """

    def __init__(self, checkpoints: Checkpoints, name: str) -> None:
        self.path = checkpoints.file(name)
        self.resume = checkpoints.resume

    def load(self) -> dict[str, Any] | None:
        """Return what was saved, on the host, or None.

        Raises
        ------
        DataError
            If the file is damaged.
        """
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
            raise DataError(
                f"the checkpoint cannot be read: {str(error).splitlines()[0]}",
                where=str(self.path),
                fix="delete it, or run without --resume",
            ) from error

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


def fingerprint(settings: Mapping[str, Any], *arrays: Tensor | None) -> str:
    """Return 32 hexadecimal digits of all that a training depends on.

    Parameters
    ----------
    settings : mapping
        JSON values.
    *arrays : Tensor of 4 or 8 bytes a cell, or None
        Summed bit by bit where they are, each cell times its row, modulo 2⁶⁴: no copy to the host.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        digest.update(b"none" if array is None else repr(_checksums(array)).encode())
    return digest.hexdigest()[:32]


def _checksums(array: Tensor) -> list[Any]:
    columns = array.unsqueeze(1) if array.ndim == 1 else array
    place = torch.arange(1, len(columns) + 1, device=array.device)
    bits = torch.int32 if array.element_size() == 4 else torch.int64
    sums = [int((columns[:, j].contiguous().view(bits).to(torch.int64) * place).sum()) for j in range(columns.shape[1])]
    return [tuple(array.shape), str(array.dtype), sums]
