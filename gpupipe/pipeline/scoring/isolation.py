"""Isolation of the further tables of a model that scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.settings import TableSource
from gpupipe.pipeline.model.interface import LoadedModel


def try_event_tables(
    model: LoadedModel, tables: Mapping[str, str] | None, adjust: Callable[[TableSource], TableSource]
) -> None:
    """Try the files of further tables in a child process, if the rows to score are isolated.

    Parameters
    ----------
    model : LoadedModel
    tables : mapping of str to str, optional
        Their names to file, glob, folder or URL. Names that the model does not know are reported when it scores.
    adjust : callable
        Returns the source of the rows to score with the reader settings that the user gave.

    Raises
    ------
    DataError, LimitError
        As `gpupipe.io.isolation.try_files`.
    """
    if not adjust(model.source_of("INPUT")).isolate:
        return
    for name, path in (tables or {}).items():
        if name in model.events.tables:
            source = model.event_source(name, path).model_copy(update={"isolate": True})
            try_files(source, input_files(source))
