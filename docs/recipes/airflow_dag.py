"""Train a model and score new rows every day, and update a model every month, with Airflow."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

PYTHON = sys.executable  # or the Python of another environment, with gpupipe
ERRORS = range(1, 7)  # exit codes of errors, which another attempt would repeat
NOT_BETTER = 6  # exit code of an update whose challenger should not take over


def gpupipe(folder: str, *arguments: str) -> None:
    """Run one command of gpupipe in a folder; raise AirflowFailException, which is not retried, if it is an error."""
    try:
        subprocess.run([PYTHON, "-m", "gpupipe", *arguments], cwd=folder, check=True)
    except subprocess.CalledProcessError as error:
        if error.returncode in ERRORS:
            raise AirflowFailException(str(error)) from error
        raise


@task
def check(folder: str, config: str) -> None:
    """Report every error of the configuration before a GPU is used."""
    gpupipe(folder, "check", config)


@task(retries=3, retry_delay=timedelta(minutes=1))
def train(folder: str, config: str, run: str) -> None:
    """Train, and continue from the checkpoints of an interrupted attempt."""
    gpupipe(folder, "run", config, "--output", run, "--resume")


@task
def score(folder: str, run: str, rows: str, predictions: str) -> None:
    """Score the rows of the day with the champion; skip a day without a file."""
    if not Path(folder, rows).exists():
        raise AirflowSkipException(f"no file {rows}")
    gpupipe(folder, "predict", run, rows, "--output", predictions, "--force")


@task(retries=3, retry_delay=timedelta(minutes=1))
def update(folder: str, models: str, rows: str, challenger: str) -> None:
    """Train a challenger on the rows of the month; skip its promotion if it is not better than the current model."""
    try:
        gpupipe(folder, "update", models, rows, "--output", challenger, "--quiet")
    except AirflowFailException as error:
        if getattr(error.__cause__, "returncode", 0) == NOT_BETTER:
            raise AirflowSkipException("the challenger is not better") from error
        raise


@task(retries=3, retry_delay=timedelta(minutes=1))
def promote(folder: str, models: str, challenger: str) -> None:
    """Make the challenger the current model, which servers follow."""
    gpupipe(folder, "promote", models, challenger)


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def churn(folder: str = "/data", config: str = "configs/churn.yaml") -> None:
    """Train in a run directory of the logical date, and score the rows of that date."""
    run = "runs/churn/{{ ds }}"
    scored = score(folder, run, "data/{{ ds }}.csv", "data/{{ ds }}.scored.parquet")
    check(folder, config) >> train(folder, config, run) >> scored


churn()


@dag(schedule="@monthly", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def churn_refresh(folder: str = "/data", models: str = "models/churn") -> None:
    """Update the current model of a folder of generations with the rows of the month."""
    challenger = "runs/churn/update-{{ ds }}"
    update(folder, models, "data/month-{{ ds }}.csv", challenger) >> promote(folder, models, challenger)


churn_refresh()
