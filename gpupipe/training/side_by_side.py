"""Trainings at the same time, each on its share of the threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpupipe.backends.threads import limit_threads
from gpupipe.models.context import DeadlineReached


def run_together(calls: Sequence[Callable[[], None]], n_at_once: int, n_threads: int) -> None:
    """Make `calls` in order, `n_at_once` at the same time, each of which uses `n_threads` threads.

    After an error no further call is made; the error is raised once the others have ended.
    """
    if n_at_once == 1 or len(calls) == 1:
        for call in calls:
            call()
        return
    from sklearn.exceptions import ConvergenceWarning

    # Each training sets these process-wide limits and filters, and restores what it found: the outermost restores last.
    with limit_threads(n_threads), warnings.catch_warnings(), ThreadPoolExecutor(n_at_once) as pool:
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a training whose filters another one has restored
        errors: list[BaseException] = []

        def run(call: Callable[[], None]) -> None:
            try:
                if not errors:
                    call()
            except BaseException as error:
                errors.append(error)

        try:
            for future in [pool.submit(run, call) for call in calls]:
                future.result()
        except BaseException as error:  # an interrupt while this thread waits
            errors.insert(0, error)
    if errors:  # a deadline ends one model, any other error more than that
        raise next((error for error in errors if not isinstance(error, DeadlineReached)), errors[0])
