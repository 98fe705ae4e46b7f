"""Single-row latency of candidates, measured on the CPU through the scorer of the model as it would be exported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.latency import Latency, order_statistic, time_calls
from gpupipe.pipeline.records.export import export_model
from gpupipe.pipeline.records.trial_rows import decoded_values
from gpupipe.table.device.frame_columns import DeviceText
from gpupipe.table.schema import RAW_KINDS, Column
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.preparation.identifiers import read_unencoded
from gpupipe.typing import Array

N_ROWS = 500  # different rows
EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


def measure_latency(job: Job, trained: TrainedModel, decision: Decision, mask: Array, folder: Path) -> Latency:
    """Return the latency of a model, written and loaded as it would be exported, on the CPU.

    The limit is that of the job's configuration. `mask`, bool, shape (n_rows,), selects the rows of the job's table to
    draw from. The files of the model in `folder` are removed again.
    """
    from gpupipe.inference.scorer.load import load_scorer

    limit = job.config.evaluate.max_latency
    assert limit is not None
    with TemporaryDirectory(prefix="latency-", dir=folder) as temporary:
        path = Path(temporary) / "model"
        export_model(path, trained, job, decision, {})
        scorer = load_scorer(path, allow_code=True)  # the custom kernels of the configuration itself
        rows = sample_rows(job, scorer.inputs, mask)
        seconds = time_calls(scorer.predict, rows, limit, check=job.timeline.stop_signal.check)
    p50, p99 = (round(order_statistic(seconds, share), 9) for share in (0.5, 0.99))
    return Latency(p50, p99, len(seconds), limit, scorer.engine, scorer.estimator_name)


def sample_rows(job: Job, names: Sequence[str], mask: Array) -> list[dict[str, Any]]:
    """Return up to `N_ROWS` rows of the job's table, evenly spaced among those in `mask`, as dicts of raw values.

    Levels that were not seen in training, such as those of rare categories, are replaced by one unseen level. Raise
    ConfigError if the texts of a joined table are on workers or on a device.
    """
    candidates = np.flatnonzero(mask)
    rows = candidates[np.unique(np.linspace(0, len(candidates) - 1, min(N_ROWS, len(candidates))).astype(np.int64))]
    schema = job.table.schema
    encoded = [name for name in names if name in schema and schema[name].kind not in RAW_KINDS]
    values = {name: [_raw_value(value, schema[name]) for value in decoded_values(job, name, rows)] for name in encoded}
    stored = {name: text for name, text in job.table.texts.items() if not isinstance(text, DeviceText)}
    texts = {name: stored[name].take(rows) for name in names if name in stored}
    if absent := [name for name in names if name not in values and name not in texts]:  # on workers or a device
        origin = rows if job.row_ids is None else job.row_ids[rows]
        try:
            texts |= read_unencoded(job.config, absent, origin, job.files)
        except SchemaError as error:
            raise ConfigError(
                f"the latency cannot be measured: the texts of {', '.join(absent)} are on workers or on a device, and "
                f"not all of them are columns of the source ({error.what})",
                where="evaluate.max_latency",
                fix="remove the setting, or run on this machine's CPU; with --resume, models are not trained again",
                names=absent,
            ) from error
    values |= {name: text.to_pylist() for name, text in texts.items()}
    return [dict(zip(names, row, strict=True)) for row in zip(*(values[name] for name in names), strict=True)]


def _raw_value(value: Any, column: Column) -> Any:
    """Return a decoded value in the type that a caller would pass: times as datetime, whole numbers as int."""
    if column.kind == "datetime" and value is not None:
        try:
            return EPOCH + timedelta(microseconds=value)
        except OverflowError:  # datetime ends in the year 9999
            return None
    return int(value) if isinstance(value, float) and column.dtype.startswith(("int", "uint")) else value
