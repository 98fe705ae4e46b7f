"""The thread for calls at regular intervals."""

from __future__ import annotations

import threading

import pytest

from gpupipe.backends.polling_thread import PollingThread


def polling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gpupipe-polling"]


def test_all_calls_share_one_thread_which_ends_with_the_block_and_survives_errors() -> None:
    failed, done, seen = threading.Event(), threading.Event(), set()

    def fail() -> None:
        seen.add(threading.current_thread().name)
        failed.set()
        raise ValueError("a bug")

    def succeed() -> None:
        seen.add(threading.current_thread().name)
        if failed.is_set():
            done.set()

    with PollingThread() as polling:
        assert not polling_threads()
        polling.call_every(0.001, fail)
        polling.call_every(0.002, succeed)
        assert done.wait(20) and len(polling_threads()) == 1
    assert not polling_threads() and seen == {"gpupipe-polling"}


def test_a_cancelled_call_is_finished_and_never_made_again() -> None:
    entered, release, calls, others = threading.Event(), threading.Event(), [], threading.Event()

    def call() -> None:
        calls.append("begun")
        entered.set()
        release.wait(20)
        calls.append("ended")

    with PollingThread() as polling:
        cancel = polling.call_every(0.001, call)
        assert entered.wait(20)
        threading.Timer(0.02, release.set).start()
        assert cancel()
        assert calls == ["begun", "ended"]
        polling.call_every(0.001, others.set)
        assert others.wait(20)
    assert calls == ["begun", "ended"]


def test_an_error_of_the_block_ends_the_thread_too() -> None:
    with pytest.raises(KeyError), PollingThread() as polling:
        polling.call_every(0.001, lambda: None)
        raise KeyError
    assert not polling_threads()
