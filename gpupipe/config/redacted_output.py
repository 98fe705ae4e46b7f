"""Hiding of secrets in errors, log records and warnings, including those of libraries."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpupipe.config.redaction import Redactor
from gpupipe.errors import GpupipeError


class RedactedError(Exception):
    """Replacement of a library's error whose text contains a secret that cannot be removed from it."""


@contextmanager
def redact_output(redactor: Redactor) -> Iterator[None]:
    """Hide secrets in errors that leave the ``with`` block, and in logs, warnings and thread errors inside it.

    Errors keep their type, traceback and causes. Only errors whose text is computed from private state, such as
    pydantic's, are replaced by a `RedactedError` of the same name.
    """
    failed: BaseException | None = None
    with _library_output(redactor):
        try:
            yield
        except Exception as error:
            failed = _redact_chain(error, redactor)
            if failed is error:
                raise
    if failed is not None:
        raise failed from (failed.__cause__ or (None if failed.__suppress_context__ else failed.__context__))


def _redact_chain(
    error: BaseException, redactor: Redactor, done: dict[int, BaseException] | None = None
) -> BaseException:
    """Hide secrets in an error, its causes and contexts, in place where possible; return the error to raise."""
    done = {} if done is None else done
    if id(error) in done:  # a chain may have a cycle
        return done[id(error)]
    done[id(error)] = error
    clean = done[id(error)] = _redact(error, redactor)
    for inner in getattr(error, "exceptions", ()):  # ExceptionGroup
        _redact_chain(inner, redactor, done)
    is_suppressed = error.__suppress_context__
    for name in ("__cause__", "__context__"):
        inner = getattr(error, name)
        setattr(clean, name, inner and _redact_chain(inner, redactor, done))
    clean.__suppress_context__ = is_suppressed
    return clean


def _redact(error: BaseException, redactor: Redactor) -> BaseException:
    if isinstance(error, GpupipeError):
        error.reword(redactor.hide)
    if not redactor.has_secret(_text(error)):
        return error
    with suppress(Exception):  # these may be computed properties in a library's error
        error.args = tuple(redactor.hide(arg) if isinstance(arg, str) else arg for arg in error.args)
        for name in ("filename", "filename2", "strerror", "msg", "text", "name"):
            if isinstance(value := getattr(error, name, None), str):
                setattr(error, name, redactor.hide(value))
        if notes := getattr(error, "__notes__", None):
            notes[:] = map(redactor.hide, notes)
    if not redactor.has_secret(_text(error)):
        return error
    kind = type(error)
    stand_in: type[RedactedError] = type(kind.__name__, (RedactedError,), {"__module__": kind.__module__})
    return stand_in(redactor.hide(str(error))).with_traceback(error.__traceback__)


def _text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error))
    except Exception:
        return repr(error.args)


_lock = threading.Lock()
_active: list[Redactor] = []
_originals: list[Callable[..., Any]] = []


@contextmanager
def _library_output(redactor: Redactor) -> Iterator[None]:
    """Hide secrets in logs and warnings of all threads inside the ``with`` block; blocks may overlap."""
    if not redactor:
        yield
        return
    with _lock:
        if not _active:
            _originals[:] = [get() for get, _, _ in _HOOKS]
            for _, set_hook, own in _HOOKS:
                set_hook(own)
        _active.append(redactor)
    try:
        yield
    finally:
        with _lock:
            _active.remove(redactor)
            for (get, set_hook, own), original in zip(_HOOKS, _originals, strict=True):
                if not _active and get() is own:  # else another library has replaced it since
                    set_hook(original)


def _hide(text: str) -> str:
    for redactor in tuple(_active):
        text = redactor.hide(text)
    return text


def _make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = _originals[0](*args, **kwargs)
    try:
        text = record.getMessage()
    except Exception:  # the arguments do not match the message: logging reports that itself
        record.args = tuple(map(_hide, map(str, record.args or ())))
        return record
    if (hidden := _hide(text)) != text:
        record.msg, record.args = hidden, None
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (hidden := _hide(text)) != text:
            record.exc_info, record.exc_text = None, hidden
    return record


def _show_warning(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
    text = str(message)
    hidden = _hide(text)
    _originals[1](message if hidden == text else category(hidden), category, *args, **kwargs)


def _show_thread_error(args: threading.ExceptHookArgs) -> None:
    error = _redacted_by_all(args.exc_value)
    _originals[2](threading.ExceptHookArgs((type(error), error, args.exc_traceback, args.thread)))


def _show_unraisable(unraisable: Any) -> None:
    error = _redacted_by_all(unraisable.exc_value)
    message = unraisable.err_msg and _hide(unraisable.err_msg)
    fields = type(error), error, unraisable.exc_traceback, message, unraisable.object
    _originals[3](type(unraisable)(fields))


def _redacted_by_all(error: BaseException | None) -> BaseException | None:
    for redactor in tuple(_active):
        error = error and _redact_chain(error, redactor)
    return error


def _attribute(owner: Any, name: str, own: Callable[..., Any]) -> tuple[Any, Any, Any]:
    return lambda: getattr(owner, name), lambda hook: setattr(owner, name, hook), own


# How to read and set each hook, and its replacement; `_originals` has the hooks in this order.
_HOOKS = (
    (logging.getLogRecordFactory, logging.setLogRecordFactory, _make_record),
    _attribute(warnings, "showwarning", _show_warning),
    _attribute(threading, "excepthook", _show_thread_error),
    _attribute(sys, "unraisablehook", _show_unraisable),
)
