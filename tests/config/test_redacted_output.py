"""Redaction of secret values in library errors, logs and warnings."""

from __future__ import annotations

import gc
import logging
import pickle
import sys
import threading
import traceback
import warnings

import pydantic
import pytest

from gpupipe.config.redacted_output import redact_output
from gpupipe.config.redaction import Redactor
from gpupipe.errors import ConfigError, DataError

TOKEN = "gK7vQ2xW9rT4mZ8pL3"
REDACTOR = Redactor({"T": TOKEN})


class Stubborn(Exception):
    """An error whose text is built from private state, as in many service clients."""

    def __init__(self, response: dict[str, str]) -> None:
        self.response = response
        super().__init__("request failed")

    def __str__(self) -> str:
        return f"denied: {self.response['Message']}"


def raised(error: BaseException) -> BaseException:
    with (
        pytest.raises(type(error) if not isinstance(error, Stubborn) else Exception) as caught,
        redact_output(REDACTOR),
    ):
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"bad {TOKEN[:15]}..."),
        FileNotFoundError(2, "No such file", f"/x/{TOKEN}", None, f"/y/{TOKEN}"),
        KeyError(TOKEN),
        ConfigError("wrong", problems=[f"c.yaml:1:1: name: {TOKEN}"], where=TOKEN, fix=f"not {TOKEN}"),
        Stubborn({"Message": TOKEN}),
        ExceptionGroup("two", [OSError(TOKEN), KeyError(TOKEN)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_the_variable_name_without_the_value(error: Exception) -> None:
    found = raised(error)
    shown = "".join(traceback.format_exception(found)) + repr(found) + str(vars(found))
    assert TOKEN[:6] not in shown
    assert type(found).__name__ == type(error).__name__
    assert "${T}" in shown
    assert TOKEN.encode() not in pickle.dumps(found) if not isinstance(error, Stubborn) else True


def test_causes_and_contexts_are_kept_without_the_value() -> None:
    with pytest.raises(DataError) as caught, redact_output(REDACTOR):
        try:
            try:
                raise Stubborn({"Message": TOKEN})
            except Stubborn:
                raise OSError(f"connect to {TOKEN}")  # noqa: B904  (its context is what is tested)
        except OSError as error:
            raise DataError("cannot be read", where=TOKEN) from error
    shown = "".join(traceback.format_exception(caught.value))
    assert TOKEN[:6] not in shown
    assert "OSError: connect to ${T}" in shown
    assert "Stubborn: denied: ${T}" in shown
    assert isinstance(caught.value.__cause__, OSError)


def test_an_error_of_pydantic_is_shown_without_its_input() -> None:
    with pytest.raises(Exception) as caught, redact_output(REDACTOR):
        pydantic.TypeAdapter(int).validate_python(TOKEN)
    assert TOKEN[:6] not in "".join(traceback.format_exception(caught.value))
    assert type(caught.value).__name__ == "ValidationError"


def test_logs_and_warnings_of_libraries_are_redacted(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("some.library")
    factory, display = logging.getLogRecordFactory(), warnings.showwarning
    with warnings.catch_warnings(record=True) as warned, redact_output(REDACTOR):
        warnings.simplefilter("always")
        logger.warning("connect to %s with %d", TOKEN, 7)
        try:
            raise Stubborn({"Message": TOKEN})
        except Stubborn:
            logger.exception("failed")
        logger.warning("nothing to hide: %s", {"a": 1})
        with redact_output(REDACTOR):
            warnings.warn(f"slow: {TOKEN}", DeprecationWarning, stacklevel=1)
    assert caplog.messages[0] == "connect to ${T} with 7"
    assert caplog.records[-1].args == {"a": 1}
    shown = caplog.text + "".join(str(entry.message) for entry in warned)
    assert TOKEN[:6] not in shown
    assert "Stubborn: denied: ${T}" in shown
    assert warned[0].category is DeprecationWarning
    assert (logging.getLogRecordFactory(), warnings.showwarning) == (factory, display)


def test_without_secrets_nothing_is_replaced() -> None:
    factory = logging.getLogRecordFactory()
    error = ValueError("x")
    with pytest.raises(ValueError, match="x") as caught, redact_output(Redactor()):
        assert logging.getLogRecordFactory() is factory
        raise error
    assert caught.value is error


def test_errors_of_threads_and_finalizers_are_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    class Leaky:
        def __del__(self) -> None:
            raise Stubborn({"Message": TOKEN})

    def fail() -> None:
        raise OSError(TOKEN)

    hooks = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = threading.__excepthook__, sys.__unraisablehook__
    try:
        with redact_output(REDACTOR):
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
            Leaky().__class__  # noqa: B018  (gone at once)
            gc.collect()
        assert (threading.excepthook, sys.unraisablehook) == (threading.__excepthook__, sys.__unraisablehook__)
    finally:
        threading.excepthook, sys.unraisablehook = hooks
    shown = capsys.readouterr().err
    assert TOKEN[:6] not in shown
    assert "OSError: ${T}" in shown
    assert "Stubborn: denied: ${T}" in shown
