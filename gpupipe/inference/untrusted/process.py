"""The parent's side of the child process of an untrusted model: requests, checked replies, and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpupipe.children import Child, ChildError, ChildLimits
from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.inference.untrusted.limits import DO_NOT_USE, SETTINGS, UntrustedLimits, process_error
from gpupipe.inference.untrusted.messages import MOST_JSON, pack, unpack
from gpupipe.inference.untrusted.replies import read_error
from gpupipe.model_parts.part_checks import read_names

Result = TypeVar("Result")
Reply = Mapping[str, Any]
Buffers = Sequence[memoryview]

WORKER = "gpupipe.inference.untrusted.worker"


class ModelProcess:
    """A child process that runs a model, restarted by the next request if it has ended; requests are serialized.

    `folder` is the model directory. If `allow_code`, the child may compile and run custom kernels of the model.
    `trust` are the keys of which one must have signed the model.
    """

    def __init__(self, folder: Path, allow_code: bool, limits: UntrustedLimits, trust: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.allow_code = allow_code
        self.trust = trust
        self.limits = limits
        self._child = Child(WORKER, ChildLimits(limits.seconds_for(0), limits.memory_bytes), SETTINGS, private=True)
        self.sha256: str | None = None  # of the manifest, after the first reply
        self._is_closed = False

    def request(
        self,
        message: Mapping[str, Any],
        read: Callable[[Reply, Buffers], Result],
        parts: Sequence[Any] = (),
        *,
        n_rows: int = 0,
        array_bytes: int = 0,
    ) -> tuple[Result, list[str]]:
        """Send a request; return the result of `read` on the reply, and the warnings of the child.

        `message` has JSON values; ``request`` is the kind of the request. `read` takes the JSON object and the buffers
        of the reply; it raises ValueError, KeyError or TypeError if they are malformed. `parts` are the tables, as
        Arrow IPC streams. `n_rows` is the number of rows in the request, for its time limit. `array_bytes` is the
        maximum size of the arrays in the reply.

        Raise ArtifactError if the child crashes, reaches a limit, or sends a malformed reply; or the model directory
        has changed. Raise the errors of the model itself.
        """
        if self._is_closed:
            raise ConfigError("the untrusted model is closed", where=str(self.folder), fix="load it again")
        common = {"folder": str(self.folder), "allow_code": self.allow_code, "trust": self.trust}
        packed = pack({**message, **common}, parts)
        seconds = self.limits.seconds_for(n_rows)
        try:
            raw = self._child.request(packed, seconds, MOST_JSON + array_bytes)
        except ChildError as error:
            raise process_error(error, str(self.folder), self.limits, seconds) from error
        try:
            document, buffers = unpack(raw)
            if "error" in document:
                failure: GpupipeError = read_error(document["error"], str(self.folder), self.limits.memory_bytes)
            else:
                self._check_same(document["sha256"])
                return read(document, buffers), list(read_names(document["warnings"], "the warnings"))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            self._child.close()
            what = f"the child process of the untrusted model sent a malformed reply: {error!s:.200}"
            raise ArtifactError(what, where=str(self.folder), fix=DO_NOT_USE) from error
        raise failure

    def close(self) -> None:
        """End the process; later requests raise ConfigError."""
        self._is_closed = True
        self._child.close()

    def _check_same(self, sha256: object) -> None:
        if not isinstance(sha256, str):
            raise TypeError("the reply does not identify the model")
        if self.sha256 not in (None, sha256):
            raise ArtifactError(
                "the model directory has changed since it was loaded", where=str(self.folder), fix="load it again"
            )
        self.sha256 = sha256
