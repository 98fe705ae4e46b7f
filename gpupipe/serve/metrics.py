"""Prometheus metrics, summed over the worker processes.

Each worker writes to its own slot of a file in memory, and any worker reads all slots. A restarted worker continues the
counters of its slot, so they never fall. prometheus-client (checked: 0.25) has a mode for several processes too, with
files on disk, a lock per increment and a file per process that ever ran; 14 counters do not need it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, product
from time import time
from typing import Any

from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.severity import SEVERITIES
from gpupipe.serve.drift_window import DriftWindow, window_bytes
from gpupipe.serve.problems import CODES

ENDPOINTS = ("predict", "explain", "infer", "health", "model", "schema", "metrics", "drift", "openapi", "page", "other")
STATUSES = (200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 431, 499, 500, 503)
TIMED = ("predict", "explain", "infer")
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
MOST_COLUMNS = 2048
TEXT_BYTES = 256 * 1024
MOST_DRIFT_COLUMNS = 200
LEVELS = ", ".join(f"{i} {severity}" for i, severity in enumerate(SEVERITIES))

_REQUESTS = 0
_DURATIONS = _REQUESTS + len(ENDPOINTS) * len(STATUSES)
_DURATION = len(SECONDS) + 3  # buckets with +Inf, the sum, and the sum of failed requests
_ERRORS = _DURATIONS + len(TIMED) * _DURATION
_BATCHES = _ERRORS + len(CODES)
_ROWS, _EXPLAINED, _WARNINGS, _LOADED, _REFUSED, _LOADED_AT, _WAITING, _CONNECTIONS, _READY, _PREDICTED_AT, _CLOSED = (
    _BATCHES + len(ROWS) + 2 + i for i in range(11)
)
_UNSEEN = _CLOSED + 1
_N_VALUES = _UNSEEN + MOST_COLUMNS
SLOT_BYTES = (8 * _N_VALUES + 8 + TEXT_BYTES + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
_LENGTH = struct.Struct("<Q")


def create_file(n_workers: int) -> int:
    """Return the file descriptor of memory for the metrics of all workers."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("gpupipe-metrics")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, n_workers * SLOT_BYTES + window_bytes(n_workers))
    return fd


class _Slot:
    """The numbers of one worker, and its texts: the model and the columns that it counts unseen levels of."""

    def __init__(self, memory: memoryview) -> None:
        self.values = memory[: 8 * _N_VALUES].cast("d")
        self._text = memory[8 * _N_VALUES :]

    @property
    def text(self) -> dict[str, list[str]]:
        """The names that belong to the numbers."""
        length = _LENGTH.unpack_from(self._text)[0]
        if not length:
            return {"columns": [], "model": []}
        found: dict[str, list[str]] = json.loads(bytes(self._text[8 : 8 + length]))
        return found

    @text.setter
    def text(self, names: dict[str, list[str]]) -> None:
        content = json.dumps(names).encode()
        if len(content) <= TEXT_BYTES:
            _LENGTH.pack_into(self._text, 0, 0)  # a reader sees no names rather than half of them
            self._text[8 : 8 + len(content)] = content
            _LENGTH.pack_into(self._text, 0, len(content))


class Metrics:
    """Metrics of one worker. `fd` is from `create_file`; `drift` has the counts of the cells of predicted rows."""

    def __init__(self, fd: int, n_workers: int, worker: int) -> None:
        view = memoryview(mmap.mmap(fd, n_workers * SLOT_BYTES + window_bytes(n_workers)))
        self.drift = DriftWindow(view[n_workers * SLOT_BYTES :], n_workers, worker)
        self._slots = [_Slot(view[i * SLOT_BYTES : (i + 1) * SLOT_BYTES]) for i in range(n_workers)]
        self._own = self._slots[worker]
        self._values = self._own.values
        self.reset_gauges(worker)
        self._columns = {name: i for i, name in enumerate(self._own.text["columns"])}
        self._request_at = {each: _REQUESTS + i for i, each in enumerate(product(ENDPOINTS, STATUSES))}
        self._error_at = {code: _ERRORS + i for i, code in enumerate(CODES)}

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a response; its duration too, if it is a prediction."""
        values = self._values
        values[self._request_at[endpoint, status]] += 1
        if endpoint in TIMED:
            at = _DURATIONS + TIMED.index(endpoint) * _DURATION
            values[at + bisect_left(SECONDS, seconds)] += 1
            values[at + _DURATION - 2] += seconds
            if status != 200:
                values[at + _DURATION - 1] += seconds

    def count_error(self, code: str) -> None:
        """Count an error by its code."""
        self._values[self._error_at[code]] += 1

    def count_batch(self, n_rows: int) -> None:
        """Count a call of the model."""
        self._values[_BATCHES + bisect_left(ROWS, n_rows)] += 1
        self._values[_BATCHES + len(ROWS) + 1] += n_rows

    def count_rows(self, n_rows: int, unseen: dict[str, int], n_warnings: int) -> None:
        """Count predicted rows, their unseen levels by column, and the warnings of their rules."""
        self._values[_ROWS] += n_rows
        self._values[_PREDICTED_AT] = time()
        self._values[_WARNINGS] += n_warnings
        for name, n in unseen.items():
            if (position := self._columns.get(name)) is not None:
                self._values[_UNSEEN + position] += n

    def count_explained(self, n_rows: int) -> None:
        """Count explained rows."""
        self._values[_EXPLAINED] += n_rows

    def count_closed(self) -> None:
        """Count a connection that was closed at a time limit or because there were too many."""
        self._values[_CLOSED] += 1

    def reset_gauges(self, worker: int) -> None:
        """Reset the gauges of a worker that starts or has ended; its counters continue."""
        values = self._slots[worker].values
        values[_WAITING] = values[_CONNECTIONS] = values[_READY] = 0.0

    def set_ready(self) -> None:
        """Count this worker as one that accepts requests."""
        self._values[_READY] = 1.0

    def set_load(self, waiting: int, connections: int) -> None:
        """Set the numbers of waiting requests and open connections."""
        self._values[_WAITING], self._values[_CONNECTIONS] = waiting, connections

    def set_model(self, name: str, version: str, task: str, columns: Sequence[str], loaded_at: float) -> None:
        """Set the model that this worker serves; columns keep their counters."""
        for column in columns:
            if len(self._columns) < MOST_COLUMNS:
                self._columns.setdefault(column, len(self._columns))
        self._own.text = {"columns": list(self._columns), "model": [name, version, task]}
        self._values[_LOADED_AT] = loaded_at

    def count_reload(self, is_loaded: bool) -> None:
        """Count a new model, loaded or refused."""
        self._values[_LOADED if is_loaded else _REFUSED] += 1

    def statistics(self) -> dict[str, Any]:
        """Return the predictions of all workers since the start, in the form of Triton's statistics extension.

        Durations are those of whole requests; their parts are not measured, so their counts are 0.
        """
        total = self._total()
        n_successes = sum(total[self._request_at[endpoint, 200]] for endpoint in TIMED)
        n_requests = sum(total[at] for (endpoint, _), at in self._request_at.items() if endpoint in TIMED)
        ends = [_DURATIONS + (i + 1) * _DURATION for i in range(len(TIMED))]
        seconds, failed_seconds = (sum(total[end - k] for end in ends) for k in (2, 1))
        parts = ("queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")
        return {
            "last_inference": round(1000 * self._newest(_PREDICTED_AT)),
            "inference_count": round(total[_ROWS]),
            "execution_count": round(sum(total[_BATCHES : _BATCHES + len(ROWS) + 1])),
            "inference_stats": {
                "success": _duration(n_successes, seconds - failed_seconds),
                "fail": _duration(n_requests - n_successes, failed_seconds),
                **{part: _duration(0, 0) for part in parts},
            },
            "response_stats": {},
            "batch_stats": [],
            "memory_usage": [],
        }

    def _total(self) -> list[float]:
        return [sum(values) for values in zip(*(slot.values[:_UNSEEN] for slot in self._slots), strict=True)]

    def _newest(self, at: int) -> float:
        return max(slot.values[at] for slot in self._slots)

    def render(self, drift: DriftReport | None) -> bytes:
        """Return the metrics of all workers, and those of a report on drift, in Prometheus' text format 0.0.4."""
        lines = chain(self._lines(), () if drift is None else _drift_lines(drift))
        return "".join(f"{line}\n" for line in lines).encode()

    def _lines(self) -> Iterator[str]:
        texts = [slot.text for slot in self._slots]
        total = self._total()
        yield from _head("gpupipe_requests_total", "counter", "Responses, by endpoint and HTTP status.")
        for (endpoint, status), at in self._request_at.items():
            if total[at]:
                yield f'gpupipe_requests_total{{endpoint="{endpoint}",status="{status}"}} {total[at]:.0f}'
        yield from _head(
            "gpupipe_request_duration_seconds", "histogram", "Time from the headers of a request to its response."
        )
        for i, endpoint in enumerate(TIMED):
            at = _DURATIONS + i * _DURATION
            yield from _histogram(
                "gpupipe_request_duration_seconds", f'endpoint="{endpoint}"', SECONDS, total[at : at + _DURATION - 1]
            )
        yield from _head("gpupipe_batch_rows", "histogram", "Rows predicted by one call of the model.")
        yield from _histogram("gpupipe_batch_rows", "", ROWS, total[_BATCHES : _BATCHES + len(ROWS) + 2])
        yield from _head("gpupipe_errors_total", "counter", "Error responses, by code.")
        for code, at in self._error_at.items():
            yield f'gpupipe_errors_total{{code="{code}"}} {total[at]:.0f}'
        yield from _single("gpupipe_rows_total", "counter", "Rows predicted.", total[_ROWS])
        yield from _single("gpupipe_explained_rows_total", "counter", "Rows explained.", total[_EXPLAINED])
        yield from _head("gpupipe_unseen_levels_total", "counter", "Cells with a level that training had not seen.")
        unseen: dict[str, float] = {}
        for slot, text in zip(self._slots, texts, strict=True):
            for position, name in enumerate(text["columns"]):
                unseen[name] = unseen.get(name, 0.0) + slot.values[_UNSEEN + position]
        for name, n in unseen.items():
            yield f"gpupipe_unseen_levels_total{{column={_quoted(name)}}} {n:.0f}"
        yield from _single(
            "gpupipe_rule_warnings_total", "counter", "Violations of rules that only warn.", total[_WARNINGS]
        )
        yield from _head("gpupipe_model_info", "gauge", "The served model; 1 for each version in use.")
        for name, version, task in sorted({tuple(text["model"]) for text in texts if text["model"]}):
            yield f"gpupipe_model_info{{name={_quoted(name)},version={_quoted(version)},task={_quoted(task)}}} 1"
        yield from _head("gpupipe_model_reloads_total", "counter", "New models, summed over the workers, by result.")
        yield f'gpupipe_model_reloads_total{{result="loaded"}} {total[_LOADED]:.0f}'
        yield f'gpupipe_model_reloads_total{{result="refused"}} {total[_REFUSED]:.0f}'
        for name, about, at in (
            ("gpupipe_model_loaded_timestamp_seconds", "Time of the last load.", _LOADED_AT),
            ("gpupipe_last_prediction_timestamp_seconds", "Time of the last prediction; 0: none.", _PREDICTED_AT),
        ):
            yield from _single(name, "gauge", about, self._newest(at), ".3f")
        yield from _single("gpupipe_waiting_requests", "gauge", "Requests not yet answered.", total[_WAITING])
        yield from _single("gpupipe_connections", "gauge", "Open connections.", total[_CONNECTIONS])
        yield from _single(
            "gpupipe_connections_closed_total", "counter", "Connections closed at a limit.", total[_CLOSED]
        )
        yield from _single("gpupipe_workers", "gauge", "Workers that accept requests.", total[_READY])


def _drift_lines(drift: DriftReport) -> Iterator[str]:
    """Yield the gauges of a report; of more columns than `MOST_DRIFT_COLUMNS`, the worst ones."""
    yield from _single("gpupipe_drift_rows", "gauge", "Predicted rows that drift is computed from.", drift.n_rows)
    overall = SEVERITIES.index(drift.severity)
    yield from _single("gpupipe_drift_severity_overall", "gauge", f"The verdict, {LEVELS}.", overall)
    each = [("score", score) for score in drift.scores]
    each += [("column", column) for column in drift.columns[:MOST_DRIFT_COLUMNS]]
    yield from _head("gpupipe_drift_severity", "gauge", f"Severity of a column or score, {LEVELS}.")
    for label, found in each:
        yield f"gpupipe_drift_severity{{{label}={_quoted(found.name)}}} {SEVERITIES.index(found.severity)}"
    yield from _head("gpupipe_drift_psi", "gauge", "Population stability index, less its value without drift.")
    for label, found in each:
        yield f"gpupipe_drift_psi{{{label}={_quoted(found.name)}}} {found.psi:.6g}"


def _duration(count: float, seconds: float) -> dict[str, int]:
    return {"count": round(count), "ns": round(1e9 * seconds)}


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: float, form: str = ".0f") -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name} {value:{form}}"


def _histogram(name: str, label: str, bounds: Sequence[float], values: Sequence[float]) -> Iterator[str]:
    *counts, total = values
    for bound, n in zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True):
        yield f'{name}_bucket{{{label}{"," if label else ""}le="{bound}"}} {n:.0f}'
    yield f"{name}_sum{{{label}}} {total:.9g}" if label else f"{name}_sum {total:.9g}"
    yield f"{name}_count{{{label}}} {sum(counts):.0f}" if label else f"{name}_count {sum(counts):.0f}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
