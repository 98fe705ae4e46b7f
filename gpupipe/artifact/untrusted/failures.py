"""Conversion of library exceptions about untrusted files to errors of gpupipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.artifact.untrusted.shapes import found_value
from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import ArtifactError, GpupipeError, LimitError

EXPORT_AGAIN = "export the model again"
VERIFY = "run `gpupipe verify` to compare its predictions with those recorded in training"
MORE_MEMORY = "use a machine with more memory; a malicious model may ask for any amount"
MAX_LETTERS = 1000  # of a library's message, which may quote the file


@contextmanager
def refuse_failures(what: str, where: str, fix: str = EXPORT_AGAIN) -> Iterator[None]:
    """Convert any exception raised in the block to an error of gpupipe.

    A corrupt or malicious file can fail anywhere in NumPy, scikit-learn, XGBoost, PyTorch or ONNX Runtime, with any of
    their exception classes, so no list of classes would be complete. `what` is what is wrong, without the reason; for
    `where` and `fix` see `GpupipeError`. Raise ArtifactError if the block raises an exception other than a GpupipeError
    or an out-of-memory error; LimitError if memory runs out.
    """
    try:
        yield
    except GpupipeError as error:
        error.place(where)
        raise
    except Exception as error:
        reason = str(error)[:MAX_LETTERS]
        if is_out_of_memory(error):
            raise LimitError(f"{what}: out of memory ({reason})", where=where, fix=MORE_MEMORY) from error
        if callable(problems := getattr(error, "errors", None)):  # of pydantic, whose text has many lines
            first = problems()[0]
            entry = ".".join(map(str, first["loc"]))
            reason = f"{entry}: {first['msg']}; found {found_value(first['input'])}"[:MAX_LETTERS]
        elif not isinstance(error, ValueError):  # gpupipe's own checks raise ValueError with a complete message
            reason = f"{type(error).__name__}: {reason}"
        raise ArtifactError(f"{what}: {reason}", where=where, fix=fix) from error
