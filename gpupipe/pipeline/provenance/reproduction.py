"""Repetition of a run from the same sources, compared with it file by file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.config import load_config
from gpupipe.errors import ConfigError, DataError
from gpupipe.inference.parity.replay import NAME as PARITY
from gpupipe.model_parts.lineage import NAME as LINEAGE
from gpupipe.model_parts.lineage import read_lineage
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.provenance.statement import trained_on, versions_of
from gpupipe.pipeline.records.sources import changed_sources, describe_sources
from gpupipe.pipeline.result import Run, load_run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.preparation.input_copies import find_inputs

if TYPE_CHECKING:
    from gpupipe.config import Config
    from gpupipe.timeline.safe_points import StopSignal
    from gpupipe.timeline.timeline import Listener

# They change no result, and write elsewhere.
WITHOUT = ("report.enabled=false", "track.mlflow=null", "track.wandb=null", "monitor.period=null")
TIMED = ("latency", "seconds", "created", "manifest_sha256", "files", "libraries", "gpupipe")  # entries that may differ
# In the order in which a run makes them, so that the first one that differs is the nearest to the cause.
FEATURES = ("schema.json", "levels.json", "training_summary.json", "features.json", "learned.json", "program.npz")
PREDICTIONS = "predictions.parquet"


@dataclass(frozen=True)
class Reproduction:
    """Comparison of a run with its repetition, returned by `reproduce_run`.

    Attributes
    ----------
    n_files : int
        Files that were compared.
    differs : tuple of str
        Those that differ, in the order in which a run makes them: the first one is nearest to the cause.
    reasons : tuple of str
        What may have caused the differences, the most likely first.
    environment : str
        Where the run was repeated.

    Examples
    --------
    >>> from gpupipe import Reproduction
    >>> Reproduction(14, (), (), "cpu, 2 threads").is_equal
    True
    """

    n_files: int
    differs: tuple[str, ...]
    reasons: tuple[str, ...]
    environment: str

    @property
    def is_equal(self) -> bool:
        """True if all files are equal to the last bit."""
        return not self.differs

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as JSON values, with ``is_equal``."""
        return {"is_equal": self.is_equal, **vars(self), "differs": list(self.differs), "reasons": list(self.reasons)}


def reproduce_run(
    run: Run | str | os.PathLike[str],
    *,
    listeners: Sequence[Listener] = (),
    stop_signal: StopSignal | None = None,
) -> Reproduction:
    """Run the configuration of a run again in a temporary directory, and compare every file with those of the run.

    Tables and code must be those of the run: their hashes, versions and snapshots are compared first. Predictions and
    metrics are compared by value, without times; files of the model by their bytes, except versions, dates and the
    parity record. Reports, trackers and hardware samples are switched off.

    Parameters
    ----------
    run : Run, str or Path
        A run directory. Relative paths in its configuration are those of the working directory.
    listeners, stop_signal
        As in `gpupipe.pipeline.run.run_pipeline`.

    Returns
    -------
    Reproduction

    Raises
    ------
    ConfigError
        If the run read a table in memory, or its model continues another one.
    DataError
        If a source has changed since the run, or as `gpupipe.Pipeline.run`.
    ArtifactError
        If the directory is not that of a finished run, or a file of the model is corrupt.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from tempfile import TemporaryDirectory
    >>> settings = {"target": "Churn", "models": ["xgboost"], "report": {"enabled": False}}
    >>> with TemporaryDirectory() as folder:
    ...     run = gp.Pipeline({"generate": "churn", "rows": 500}, **settings).run(f"{folder}/run", quiet=True)
    ...     gp.reproduce_run(run).is_equal
    True
    """
    run = run if isinstance(run, Run) else load_run(run)
    reader = ArtifactReader(run.path / "model")
    config = load_config(run.path / "config.yaml", WITHOUT)
    _require_repeatable(run, reader, config)
    if changed := changed_sources(reader.manifest["sources"], describe_sources(config, find_inputs(config))):
        what = f"sources have changed since the run: {enumerate_names(changed, 8)}"
        raise DataError(what, where=str(run.path), fix="restore them: manifest.json of the model has their sha256")
    with TemporaryDirectory(prefix="gpupipe-reproduce-") as folder:
        again = run_pipeline(config, Path(folder) / "run", listeners, stop_signal=stop_signal)
        made = ArtifactReader(again.path / "model")
        equal = dict(_compared(run, again, reader, made))
        differs = tuple(name for name, is_equal in equal.items() if not is_equal)
        reasons = tuple(_reasons(reader, made, config)) if differs else ()
        now = trained_on(made)
    environment = f"{now.get('device', 'cpu')}, {count_noun(now.get('threads', 1), 'thread')}"
    return Reproduction(len(equal), differs, reasons, environment)


def _require_repeatable(run: Run, reader: ArtifactReader, config: Config) -> None:
    where = str(run.path)
    if config.has_frames:
        fix = "write the table to a file, and run its configuration"
        raise ConfigError("the run read a table in memory, which its directory does not have", where=where, fix=fix)
    if any(own.how == "continued" for own in read_lineage(reader)[-1:]):
        fix = "repeat `gpupipe update`, and compare the models with `gpupipe diff`"
        raise ConfigError("the model continues the training of another one", where=where, fix=fix)
    if not reader.manifest.get("sources"):
        what = "the model does not have the hashes of its sources: an earlier version wrote it"
        raise ConfigError(what, where=where, fix="run its configuration again, and use `gpupipe compare`")


def _compared(run: Run, again: Run, old: ArtifactReader, new: ArtifactReader) -> Iterator[tuple[str, bool]]:
    """Yield the name of each file, in the order in which a run makes them, and whether it is equal in both runs."""
    made = {*old.names(), *new.names()} - {PARITY, LINEAGE}  # `gpupipe update` adds the latter after its run
    for name in dict.fromkeys((*FEATURES, *old.manifest["estimator"]["files"], PREDICTIONS, *sorted(made))):
        if name == PREDICTIONS:
            yield PREDICTIONS, bool(run.predictions.equals(again.predictions))  # null equals null
            yield "metrics.json", _timeless(run.document) == _timeless(again.document)
            yield f"model/{MANIFEST}", _timeless(old.manifest) == _timeless(new.manifest)
        elif name in made:
            is_in_both = name in old.names() and name in new.names()
            yield f"model/{name}", is_in_both and old.read(name) == new.read(name)


def _timeless(value: Any) -> Any:
    """Return JSON values without those that depend on the time, or on versions; `repr` makes NaN equal to NaN."""
    if isinstance(value, Mapping):
        return {key: _timeless(item) for key, item in value.items() if not str(key).endswith(TIMED)}
    return [*map(_timeless, value)] if isinstance(value, list | tuple) else repr(value)


def _reasons(old: ArtifactReader, new: ArtifactReader, config: Config) -> Iterator[str]:
    """Yield what may have caused differences, the most likely first."""
    before, after = _environment(old), _environment(new)
    for name in dict.fromkeys((*before, *after)):
        if name not in ("libraries", "reason") and (was := before.get(name)) != (now := after.get(name)):
            yield f"{name}: {was or 'not installed'}, now {now or 'not installed'}"
    searches = chain.from_iterable((entry.params, entry.tune) for entry in config.models)
    if config.limits.time is not None or any(getattr(each, "time_limit", None) is not None for each in searches):
        yield "a search or ensemble that is limited by time tries as many models as the machine allows"
    if after.get("threads", 1) > 1 or after.get("device") == "gpu":
        yield "threads add numbers in another order each time: compare two runs with GPUPIPE_THREADS=1"


def _environment(reader: ArtifactReader) -> dict[str, Any]:
    versions = {f"version of {name}": version for name, version in versions_of(reader).items()}
    return versions | trained_on(reader)
