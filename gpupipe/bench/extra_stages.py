"""Stages outside the totals of the comparison: reads from the encoded cache, and serving."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupipe.backends import choose
from gpupipe.bench.clock import StageClock
from gpupipe.bench.stages import model_of, read_and_split
from gpupipe.config import Config, ModelEntry
from gpupipe.features.program.fitted import write_matrix
from gpupipe.io.cache import TableCache
from gpupipe.pipeline.read_stage import read_table
from gpupipe.pipeline.training import learn_features
from gpupipe.table.blocks import Table


def run_extras(config: Config, model: ModelEntry | None) -> dict[str, Any]:
    """Time reads without and with the encoded cache, and a transform of all rows; return the report.

    A cached table is a memory map: its pages are read when they are touched. So each read is followed by one pass over
    all blocks; compare the sums of both.
    """
    clock = StageClock()
    notes = _time_reads(config, clock)
    split = read_and_split(config, StageClock())
    job = split.job
    features = learn_features(split.rows, model_of(job, model).params.view, config.features)
    with clock("serve_transform_all"):
        write_matrix(job.table, features, job.backend)
    return {"stages_s": clock.wall, "stages_cpu_s": clock.cpu, "rows": job.table.n_rows, "notes": notes}


def _time_reads(config: Config, clock: StageClock) -> list[str]:
    backend = choose(config.device)
    with clock("read"):
        table = read_table(config, backend).table
    with clock("read_pass"):
        _touch(table)
    del table
    with TemporaryDirectory() as folder:
        cached = _with_cache(config, folder)
        with clock("cache_store"):
            notes = read_table(cached, backend).notes
        cache = TableCache.of(cached.source, cached.tables)
        if cache is None or not cache.path.is_dir():
            return [f"the encoded cache could not be measured: {'; '.join(notes)}"]
        with clock("cache_load"):
            table = read_table(cached, backend).table
        with clock("cache_pass"):
            _touch(table)
        del table
    return []


def _with_cache(config: Config, folder: str) -> Config:
    source = config.source.model_copy(update={"cache": str(Path(folder).resolve())})
    return config.model_copy(update={"source": source})


def _touch(table: Table) -> None:
    """Read every value of every block once."""
    import numpy as np

    with np.errstate(all="ignore"):
        for block in table.blocks.values():
            block.sum()
