"""Errors of libraries that parse or evaluate files from anywhere, as errors of gpupipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.errors import ArtifactError, GpupipeError, LimitError

EXPORT_AGAIN = "export the model again"
MORE_MEMORY = "use a machine with more memory; a malicious model may ask for any amount"
MAX_LETTERS = 1000  # of a library's message: it may quote the file


@contextmanager
def refuse_failures(what: str, where: str, fix: str = EXPORT_AGAIN) -> Iterator[None]:
    """Raise an error of gpupipe for whatever the block raises.

    A damaged or malicious file can fail anywhere in NumPy, scikit-learn, XGBoost, PyTorch or ONNX Runtime, with any
    exception that these know; the list of their classes has no end.

    Parameters
    ----------
    what : str
        What is wrong, without the reason.
    where, fix : str
        See `GpupipeError`.

    Raises
    ------
    ArtifactError
        If the block raises anything but an error of gpupipe, or one that says that memory is short.
    LimitError
        If memory is short.
    """
    try:
        yield
    except GpupipeError:
        raise
    except Exception as error:
        reason = str(error)[:MAX_LETTERS]
        if is_out_of_memory(error):
            raise LimitError(f"{what}: out of memory ({reason})", where=where, fix=MORE_MEMORY) from error
        if not isinstance(error, ValueError):  # that is how checks of ours say it
            reason = f"{type(error).__name__}: {reason}"
        raise ArtifactError(f"{what}: {reason}", where=where, fix=fix) from error
