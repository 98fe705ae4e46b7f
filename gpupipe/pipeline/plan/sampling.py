"""A configuration on some rows of its tables, for `gpupipe plan` and `gpupipe check`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gpupipe.config import Config
from gpupipe.errors import GpupipeError
from gpupipe.readers.sample import Sampled, take_sample


@dataclass(frozen=True)
class SampledTables:
    """Some rows of every table of a configuration.

    Attributes
    ----------
    config : Config
        The same configuration, on the CPU, with the samples as its tables.
    main : Sampled
    further : mapping of str to Sampled
        Of `tables`, by name.
    folder : Path
        Where the samples are.
    """

    config: Config
    main: Sampled
    further: dict[str, Sampled]
    folder: Path

    @property
    def is_whole(self) -> bool:
        """Whether every row of every table is in the samples."""
        return all(part.n_sample_rows >= part.n_rows for part in (self.main, *self.further.values()))

    def in_words_of(self, config: Config) -> Callable[[str], str]:
        """Return what replaces the paths of samples in a text by those that `config` names."""
        labels = {"main": config.source.label} | {f"table-{name}": t.label for name, t in config.tables.items()}
        sample = re.compile(rf"{re.escape(str(self.folder))}/({'|'.join(map(re.escape, labels))})(/[^\s:,']*)?")
        return lambda text: sample.sub(lambda found: labels[found[1]], text)


@contextmanager
def sampled_tables(config: Config, most: int) -> Iterator[SampledTables]:
    """Sample about `most` rows of each table of `config`; the samples are deleted on exit.

    Errors of ours that leave the block name the files of `config`, not those of the samples.

    Raises
    ------
    DataError
        If a file is absent or cannot be read, or there are no rows.
    """
    with TemporaryDirectory(prefix="gpupipe-sample-") as folder:
        tables = config.tables.items()
        further = {name: take_sample(table, _folder(folder, f"table-{name}"), most) for name, table in tables}
        main = take_sample(config.source, _folder(folder, "main"), most)
        parts = {name: part.source for name, part in further.items()}
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
