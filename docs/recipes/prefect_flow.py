"""Train a model, score new rows, and update the model with Prefect."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from prefect import flow, task

ERRORS = range(1, 7)  # exit codes of errors, which another attempt would repeat
NOT_BETTER = 6  # exit code of an update whose challenger should not take over


def gpupipe(*arguments: str) -> None:
    """Run one command of gpupipe; raise CalledProcessError if it ends with an exit code other than 0."""
    subprocess.run([sys.executable, "-m", "gpupipe", *arguments], check=True)


def was_interrupted(task: Any, run: Any, state: Any) -> bool:
    """Return whether an attempt was ended by a signal, such as that of an eviction."""
    error = state.result(raise_on_failure=False)
    return not isinstance(error, subprocess.CalledProcessError) or error.returncode not in ERRORS


@task
def check(config: str) -> None:
    """Report every error of the configuration before a GPU is used."""
    gpupipe("check", config)


@task(retries=3, retry_delay_seconds=60, retry_condition_fn=was_interrupted)
def train(config: str, run: str) -> None:
    """Train, and continue from the checkpoints of an interrupted attempt."""
    gpupipe("run", config, "--output", run, "--resume", "--quiet")


@task
def score(run: str, rows: str, predictions: str) -> None:
    """Score rows with the champion."""
    gpupipe("predict", run, rows, "--output", predictions, "--force")


@task(retries=3, retry_delay_seconds=60, retry_condition_fn=was_interrupted)
def update(models: str, rows: str, challenger: str) -> bool:
    """Train a challenger on new rows, and return whether it is better than the current model."""
    try:
        gpupipe("update", models, rows, "--output", challenger, "--quiet")
    except subprocess.CalledProcessError as error:
        if error.returncode == NOT_BETTER:
            return False
        raise
    return True


@task(retries=3, retry_delay_seconds=60, retry_condition_fn=was_interrupted)
def promote(models: str, challenger: str) -> None:
    """Make the challenger the current model, which servers follow."""
    gpupipe("promote", models, challenger)


@flow
def refresh(rows: str, challenger: str, models: str = "models/churn") -> bool:
    """Update the current model of a folder of generations with new rows, and return whether it was replaced."""
    is_better = update(models, rows, challenger)
    if is_better:
        promote(models, challenger)
    return is_better


@flow
def churn(config: str = "configs/churn.yaml", run: str = "runs/churn", rows: str = "", predictions: str = "") -> None:
    """Train, and score the file `rows` if one is given."""
    check(config)
    train(config, run)
    if rows:
        score(run, rows, predictions)


if __name__ == "__main__":
    churn()
