"""Base class of the text ops: column selection, and features computed once per distinct text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.content_op import ContentOp
from gpupipe.features.program.selection import resolve
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.history.tables import RawColumn
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers

MAX_NGRAM = 16
MIN_PARALLEL_ROWS = 10_000  # with fewer rows, starting threads costs more than it saves


class TextOp(ContentOp):
    """An op on the contents of text or categorical columns, as they were read.

    Texts that are not in the training rows are handled like all others.
    """

    OP: ClassVar[str]  # configuration name
    NULL: ClassVar[float]  # output value where the text is null
    READS: ClassVar[str] = "texts"  # contents of its columns, for messages

    @abstractmethod
    def column_names(self) -> list[str]:
        """Return the suffixes of the output columns of one text column."""

    @property
    @abstractmethod
    def n_unscaled(self) -> int:
        """Number of the first output columns that models of scaled numbers need scaled; the others are left alone."""

    @abstractmethod
    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return the output values of non-null texts, float32, shape (len(column_names()), len(texts))."""

    def apply(self, builder: ProgramBuilder) -> None:
        """Mark the text columns as used: their derived columns are already in the table."""
        made = {column.name for column in builder.statistics.table.schema if column.derived}
        last = self.column_names()[-1]
        builder.consumed |= {name for name in builder.columns if f"{self.prefix}{name}_{last}" in made}

    def check(self, column: str, texts: pa.Array, values: Array, codes: Array, sources: DerivationSources) -> None:
        """Add warnings about the values of distinct texts to `sources`; `codes` are the texts of the rows."""

    def raw_columns(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that the selection may match: the named ones if it has no patterns, else all."""
        listed = self.listed()
        return tuple(listed if set(listed) <= set(texts) else [*listed, *texts])

    def derive(self, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the output columns of each text column."""
        columns, names = self.selected(sources.main), self.column_names()
        self.require_room(len(columns) * len(names), sources)
        for column in columns:
            raw = sources.main.raw(column)
            texts, codes = sources.once(("texts", column), partial(encode_texts, raw, sources.backend))
            values = self.values(texts, column, sources.backend)
            values[:, len(texts) - 1] = self.NULL
            self.check(column, texts, values, codes, sources)
            of_rows = _of_rows(values, codes, sources.backend)
            for i, (name, rows) in enumerate(zip(names, of_rows, strict=True)):
                has_scale = i >= self.n_unscaled
                yield DerivedColumn(f"{self.prefix}{column}_{name}", rows, (column,), has_scale=has_scale)

    def selected(self, rows: HistoryRows) -> list[str]:
        """Return the columns that the selection matches."""
        listed = self.listed()
        schema = rows.table.schema
        selectable = [column for column in schema if not column.derived or column.name in listed]
        kinds: dict[str, str] = {column.name: column.kind for column in selectable if column.name not in rows.unknown}
        # A listed name refers to the input column even if that column is not encoded.
        kinds |= {name: "text" for name in listed if name in rows.raw_columns and name not in kinds}
        names = resolve(listed, kinds)
        for name in names:
            if kinds[name] not in ("text", "categorical") or name not in rows.raw_columns:
                raise ConfigError(
                    f"{self.OP} takes text columns; {name!r} is {kinds[name]}",
                    fix=f"select other columns, or declare it: schema: {{{name}: text}}",
                    names=[name],
                )
        return names


def ascending_ngrams(value: tuple[int, int]) -> tuple[int, int]:
    """Return the minimum and maximum length of n-grams; raise ValueError if they are out of range."""
    if not 1 <= value[0] <= value[1] <= MAX_NGRAM:
        raise ValueError(f"expected 1 <= minimum <= maximum <= {MAX_NGRAM}; got {list(value)}")
    return value


def lower_texts(texts: pa.Array, name: str) -> pa.Array:
    """Return texts of the column `name` in lower case; raise SchemaError if they are not UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.utf8_lower(texts)
    except pa.ArrowInvalid as error:
        what, fix = f"column {name!r} contains text that is not UTF-8: {error}", "re-encode the file as UTF-8"
        raise SchemaError(what, fix=fix, names=[name]) from None


def encode_texts(column: RawColumn, backend: Backend) -> tuple[pa.Array, Array]:
    """Return the distinct texts of a column followed by an empty text, and the index of the text of each row.

    Indices are int32, shape (len(column),), on the device of `backend`. Null rows have that of the empty text.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        texts, codes = _encode_on_host(column)
        return texts, backend.to_device(codes)
    return _encode_on_device(column, backend)


def _encode_on_device(column: DeviceNumbers | DeviceDictionary, backend: Backend) -> tuple[pa.Array, Array]:
    """Implement `encode_texts` for a device column; copy its distinct values to the host if they are not there."""
    from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers
    from gpupipe.table.string_columns import format_values

    codes, values = column.distinct(backend) if isinstance(column, DeviceNumbers) else (column.codes, column.values)
    found = DeviceDictionary(codes, format_values(values)).trim(backend)
    return _with_empty(found.values), backend.xp.where(found.codes < 0, len(found.values), found.codes).astype("int32")


def _encode_on_host(column: pa.ChunkedArray) -> tuple[pa.Array, HostArray]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from gpupipe.arrow_numpy import scalar, text_array, to_numpy
    from gpupipe.table.string_columns import as_dictionary, dictionaries

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    coded = as_dictionary(column)
    kind = coded.type.value_type
    chunks = [_compact(chunk) for chunk in coded.chunks]
    coded = pa.chunked_array(chunks, pa.dictionary(pa.int32(), kind))
    if len(dictionaries(coded)) > 1:
        coded = coded.unify_dictionaries()
    texts = coded.chunk(0).dictionary if coded.num_chunks else text_array([], kind)
    codes = np.empty(len(coded), np.int32)
    start = 0
    for chunk in coded.chunks:
        codes[start : start + len(chunk)] = to_numpy(pc.fill_null(chunk.indices, scalar(len(texts), pa.int32())))
        start += len(chunk)
    return _with_empty(texts), codes


def _with_empty(texts: pa.Array) -> pa.Array:
    import pyarrow as pa

    from gpupipe.arrow_numpy import text_array

    return pa.concat_arrays([texts, text_array([""], texts.type)])


def _compact(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a chunk with int32 indices, and a dictionary without nulls and no longer than the chunk."""
    import pyarrow as pa

    dictionary = chunk.dictionary
    if dictionary.null_count or len(dictionary) > len(chunk):  # such as a slice of a long table
        return chunk.cast(dictionary.type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), dictionary)


def run_kernel(kernel: Callable[..., Array], texts: pa.Array, backend: Backend) -> Array:
    """Run `kernel` on the bytes and offsets of `texts`, on the device of `backend`, and return its result.

    `kernel` is `hash_texts` or `count_texts` of `gpupipe_kernels.text`. `texts` are strings or large strings without
    nulls.
    """
    data, offsets = (backend.to_device(buffer) for buffer in text_buffers(texts))
    if backend.name == "gpu":
        return kernel(data, offsets, allocate=backend.xp.empty)
    return kernel(data, offsets, n_threads=backend.n_threads, engine=backend.choose_engine("text", len(data)))


def text_buffers(texts: pa.Array) -> tuple[HostArray, HostArray]:
    """Return the bytes of texts without nulls (uint8, not copied) and their offsets (int64, shape (n_texts + 1,))."""
    import numpy as np
    import pyarrow as pa

    wide = pa.types.is_large_string(texts.type)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], ends.astype(np.int64) - ends[0]


def _of_rows(values: Array, codes: Array, backend: Backend) -> Array:
    """Return the values of each row, shape (n_columns, n_rows), from the values of the distinct texts."""
    xp = backend.xp
    if len(codes) < MIN_PARALLEL_ROWS:
        of_rows: Array = values[:, codes]
        return of_rows
    rows = xp.empty((len(values), len(codes)), "float32")
    backend.map(lambda i: backend.take(values[i], codes, rows[i]), range(len(values)))
    return rows
