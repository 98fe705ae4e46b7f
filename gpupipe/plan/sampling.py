"""Sample of the tables of a configuration, for `gpupipe plan` and `gpupipe check`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gpupipe.config import Config
from gpupipe.errors import GpupipeError
from gpupipe.io.input_files import InputFiles
from gpupipe.io.join import read_joined
from gpupipe.io.row_sample import SourceSample, take_sample
from gpupipe.io.settings import Source


@dataclass(frozen=True)
class SampledTables:
    """Configuration on a sample of each of its tables.

    `config` is the configuration on the CPU, with the samples as its tables. `further` has the samples of `tables`, by
    name. `folder` is that of the samples.
    """

    config: Config
    main: SourceSample
    further: dict[str, SourceSample]
    folder: Path

    @property
    def is_whole(self) -> bool:
        """True if the samples have all rows of all tables."""
        return all(part.n_sample_rows >= part.n_rows for part in (self.main, *self.further.values()))

    def in_words_of(self, config: Config) -> Callable[[str], str]:
        """Return a function that replaces paths of samples in a text by those of `config`."""
        labels = {"main": config.source.label} | {f"table-{name}": t.label for name, t in config.tables.items()}
        sample = re.compile(rf"{re.escape(str(self.folder))}/({'|'.join(map(re.escape, labels))})(/[^\s:,']*)?")
        return lambda text: sample.sub(lambda found: labels[found[1]], text)


@contextmanager
def sampled_tables(config: Config, files: InputFiles, most: int) -> Iterator[SampledTables]:
    """Sample about `most` rows of each table of `config` for the ``with`` block; `files` are its listed files.

    Errors that leave the block name the files of `config`, not those of the samples. Raise DataError if a file cannot
    be read, or there are no rows.
    """
    with TemporaryDirectory(prefix="gpupipe-sample-") as folder:
        tables = config.tables.items()
        further = {
            name: take_sample(table, _folder(folder, f"table-{name}"), most, files.tables[name])
            for name, table in tables
        }
        parts = {name: part.source for name, part in further.items()}
        if config.source.entities is None:
            main = take_sample(config.source, _folder(folder, "main"), most, files.source)
        else:
            source = _of_sampled_events(config.source, further)
            main = _made_of_events(source, read_joined(source, parts).table.num_rows, further)
        small = config.model_copy(update={"source": main.source, "tables": parts, "device": "cpu"})
        found = SampledTables(small, main, further, Path(folder))
        rename = found.in_words_of(config)
        try:
            yield found
        except GpupipeError as error:
            error.reword(rename)
            raise


def _folder(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir()
    return path


def _of_sampled_events(source: Source, sampled: Mapping[str, SourceSample]) -> Source:
    """Return a source whose rows are built from sampled events, without a check of the last event's time."""
    entities = source.entities
    assert entities is not None
    if _share(sampled[entities.table]) < 1:
        entities = entities.model_copy(update={"until": "9999-12-31"})
    return source.model_copy(update={"entities": entities, "cache": False})


def _made_of_events(source: Source, n_rows: int, sampled: Mapping[str, SourceSample]) -> SourceSample:
    """Return the rows built from sampled events as a sample, with an estimate of the number from all events."""
    assert source.entities is not None
    events, n_cut_offs = sampled[source.entities.table], len(source.entities.as_of)
    if _share(events) == 1:
        return SourceSample(source, n_rows, n_rows, 0, True)
    n_all = n_cut_offs * _n_keys_of_all(n_rows / n_cut_offs, events.n_sample_rows, events.n_rows)
    return SourceSample(source, round(n_all), n_rows, 0, False)


def _n_keys_of_all(n_keys: float, n_sampled: int, n_events: int) -> float:
    """Return the estimated number of keys of all events, if a sample of them has `n_keys` and keys are random."""
    low, high = n_keys, n_keys * n_events / n_sampled
    for _ in range(60):  # n_keys = n * (1 - exp(-n_sampled / n)) grows with n
        n = (low + high) / 2
        low, high = (n, high) if n * -math.expm1(-n_sampled / n) < n_keys else (low, n)
    return min(-high * math.expm1(-n_events / high), n_keys * n_events / n_sampled)


def _share(part: SourceSample) -> float:
    return part.n_sample_rows / part.n_rows
