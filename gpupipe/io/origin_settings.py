"""Origins of a table: files, a frame, a generator, a SQL query, or a snapshot of a Delta or Iceberg table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gpupipe.errors import ConfigError
from gpupipe.io.file_formats import GENERATORS, READERS, RESERVED
from gpupipe.io.frame_field import FrameField, is_in_memory
from gpupipe.io.in_memory import InMemoryTable
from gpupipe.settings import Names, Settings


class _OrPlugin:
    """Annotation of the formats of gpupipe that also takes those of plug-ins."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(_format, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {**schema, "enum": list(dict.fromkeys([*schema["enum"], *READERS.known_names()]))}


def _format(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str) or value in RESERVED or value not in READERS:
        return known(value)
    try:
        READERS.get(value)
    except ConfigError as error:
        raise PydanticCustomError("plugin", "{what}; {fix}", {"what": error.what, "fix": error.fix}) from None
    return value


Format = Annotated[Literal["auto", "csv", "parquet", "jsonl", "orc", "arrow"], _OrPlugin()]


ORIGINS = ("path", "frame", "generate", "sql", "delta", "iceberg")
EXTERNAL = ("sql", "delta", "iceberg")  # copied to a Parquet file before they are read: see `gpupipe.io.external`
ORIGIN_OF = {
    "uri": "sql",
    "sql_options": "sql",
    "version": "delta",
    "catalog": "iceberg",
    "snapshot": "iceberg",
}  # of further settings
DATABASES = ("postgresql", "sqlite", "duckdb")
DATABASE_FILE = re.compile(r"(?:sqlite|duckdb):///(.+)", re.DOTALL)
SECRET = re.compile(r"password|secret|token|credential|access-key|account-key|sas", re.IGNORECASE)


class SqlOptions(Settings):
    """Access of a query of DuckDB to more than its database and the files in the working directory."""

    directories: Names = Field((), description="Further folders whose files the query may read.")
    extensions: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], ...] = Field(
        (), description="Extensions to load, such as httpfs. They must be installed; gpupipe installs none."
    )
    external_access: bool = Field(
        False, description="Let the query read all files, and, with the extension httpfs, URLs with stored secrets."
    )


class TableOrigin(Settings):
    """Location of one input table."""

    path: str | tuple[str, ...] | None = Field(
        None, description="A file, a glob, a folder (plain or hive-partitioned), an fsspec URL, or a list of these."
    )
    frame: FrameField | None = Field(
        None,
        description="A table in memory, passed from Python. A configuration file stores only a description of it: pass "
        "the table again when you load the configuration.",
    )
    format: Format = Field("auto", description="File format; auto takes it from the file suffix.")
    generate: str | None = Field(
        None, description=f"Built-in generator to use instead of files: {', '.join(GENERATORS)}."
    )
    rows: int = Field(100_000, ge=1, description="Number of rows to generate; used with `generate`.")
    seed: int = Field(7, ge=0, description="Random seed of the generator; used with `generate`.")
    sql: str | None = Field(
        None,
        min_length=1,
        description="A SELECT, sent to the database `uri` as it is. Its result is copied to a temporary Parquet file. "
        "A result has no order without ORDER BY, and the split depends on the order of rows.",
    )
    uri: str | None = Field(
        None,
        description="The database of `sql`: postgresql://USER@HOST/NAME, sqlite:///FILE, duckdb:///FILE, or duckdb:// "
        "to query files. Take a URI with a password from the environment: ${DATABASE_URI}.",
    )
    sql_options: SqlOptions | None = Field(
        None, description="Access of a query of DuckDB to more than its database and files in the working directory."
    )
    delta: str | None = Field(
        None, min_length=1, description="Folder or URL of a Delta Lake table. Its rows are copied too."
    )
    version: int | None = Field(
        None, ge=0, description="Version of the Delta table. Default: the latest when the run starts."
    )
    iceberg: str | None = Field(
        None,
        pattern=r"^[^.]+(\.[^.]+)+$",
        description="Name of an Apache Iceberg table in its catalog: NAMESPACE.TABLE. Its rows are copied too.",
    )
    catalog: str | dict[str, str] | None = Field(
        None,
        description="The catalog of `iceberg`: its name in the configuration of PyIceberg, or its properties, without "
        "secrets. Default: PyIceberg's default catalog.",
    )
    snapshot: int | None = Field(
        None, description="Snapshot id of the Iceberg table. Default: the current one when the run starts."
    )

    outside_files: bool = Field(
        False,
        description="Also read files outside of the folder of the table, to which a symbolic link in it, the log of a "
        "Delta table or the metadata of an Iceberg table leads: shallow clones, `write.data.path`, and tools such as "
        "DVC that link files. Models do not keep this setting.",
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_a_frame_as_path(cls, value: Any) -> Any:
        """Move an in-memory table from `path` to `frame`; drop the description of a frame if a path is given."""
        if not isinstance(value, Mapping):
            return value
        path, frame = value.get("path"), value.get("frame")
        if frame is None and is_in_memory(path):
            return {**value, "path": None, "frame": path}
        described = isinstance(frame, str) or (isinstance(frame, InMemoryTable) and not frame.has_rows)
        if described and any(value.get(origin) is not None for origin in ORIGINS if origin != "frame"):
            return {**value, "frame": None}
        return value

    @field_validator("path", mode="before")
    @classmethod
    def _accept_path_objects(cls, path: Any) -> Any:
        if isinstance(path, list | tuple):
            return [os.fspath(item) if isinstance(item, os.PathLike) else item for item in path]
        return os.fspath(path) if isinstance(path, os.PathLike) else path

    @field_validator("delta", mode="before")
    @classmethod
    def _accept_a_path_object(cls, path: Any) -> Any:
        return os.fspath(path) if isinstance(path, os.PathLike) else path

    @field_validator("path")
    @classmethod
    def _is_not_empty(cls, path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if path is not None and (not path or not all(path)):
            raise ValueError("the path is empty")
        return path

    @field_validator("generate")
    @classmethod
    def _is_a_generator(cls, name: str | None) -> str | None:
        if name is not None and name not in GENERATORS:
            raise ValueError(f"unknown generator {name!r}; expected one of {', '.join(GENERATORS)}")
        return name

    @field_validator("uri")
    @classmethod
    def _names_a_database(cls, uri: str | None) -> str | None:
        return None if uri is None else normalize_uri(uri)

    @field_validator("catalog")
    @classmethod
    def _holds_no_secrets(cls, catalog: str | dict[str, str] | None) -> str | dict[str, str] | None:
        if found := [key for key in catalog or () if isinstance(catalog, dict) and SECRET.search(key)]:
            raise ValueError(
                f"{found[0]}: secrets cannot be stored here; set them in the configuration of PyIceberg or in "
                "PYICEBERG_CATALOG__NAME__PROPERTY, and give the name of the catalog"
            )
        return catalog

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        given = [origin for origin in ORIGINS if getattr(self, origin) is not None]
        if not self.is_made_of_events and len(given) != 1:
            generators = ", ".join(GENERATORS)
            raise ValueError(
                f"expected exactly one of path (a file, folder or URL), sql, delta, iceberg, frame (in Python) and "
                f"generate ({generators})"
            )
        for setting, origin in ORIGIN_OF.items():
            if getattr(self, setting) is not None and origin not in given:
                raise ValueError(f"{setting}: it needs {origin}")
        if self.sql is not None and self.uri is None:
            raise ValueError("sql: set uri to the database, as in uri: ${DATABASE_URI}")
        if self.sql_options is not None and not str(self.uri).startswith("duckdb:"):
            raise ValueError("sql_options: it is for duckdb://; queries of other databases read no files: remove it")
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the settings that are given for the origin, without the password of a URI."""
        for name, value in super().__repr_args__():
            if value is not None or name not in {*ORIGINS, *ORIGIN_OF}:
                yield name, database_name(value) if name == "uri" else value

    @property
    def is_made_of_events(self) -> bool:
        """True if the rows are built from an event table instead of being read."""
        return False

    @property
    def is_external(self) -> bool:
        """True if the rows are copied from a database or a lakehouse table: see `gpupipe.io.external`."""
        return any(getattr(self, origin) is not None for origin in EXTERNAL)

    @property
    def has_files(self) -> bool:
        """True if the rows are read from files, including copies."""
        return self.path is not None or self.is_external

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, always as a tuple."""
        return (self.path,) if isinstance(self.path, str) else self.path or ()

    @property
    def locations(self) -> tuple[str, ...]:
        """The files and folders that are read: `paths`, the folder of a Delta table, the file of a database."""
        file = DATABASE_FILE.fullmatch(self.uri or "")
        return (*self.paths, *([self.delta] if self.delta else []), *([file[1]] if file else []))

    @property
    def label(self) -> str:
        """Name of the table, for messages."""
        if self.frame is not None:
            return self.frame.label
        if self.uri is not None:
            return f"sql query of {database_name(self.uri)}"
        return self.generate or self.delta or self.iceberg or ", ".join(self.paths)

    def moved_to(self, path: str, file_format: str) -> Self:
        """Return these settings for rows that were written to files at `path`."""
        gone = dict.fromkeys((*ORIGINS, *ORIGIN_OF))
        return self.model_copy(update={**gone, "path": path, "format": file_format, "outside_files": False})


def normalize_uri(uri: str) -> str:
    """Return the URI of a database as drivers take it; raise ValueError, without the URI, if it names none."""
    scheme, colon, rest = uri.partition("://")
    scheme = "postgresql" if scheme == "postgres" else scheme
    if not (colon and scheme in DATABASES):
        raise ValueError(f"expected a URI that starts with {', '.join(f'{each}://' for each in DATABASES)}")
    if scheme in ("sqlite", "duckdb") and uri != "duckdb://" and not DATABASE_FILE.fullmatch(uri):
        raise ValueError(f"expected {scheme}:///FILE{', or duckdb:// to query files' * (scheme == 'duckdb')}")
    if scheme == "postgresql" and "sslkeylogfile" in dict(parse_qsl(rest.partition("?")[2], keep_blank_values=True)):
        raise ValueError("sslkeylogfile: libpq would write the keys of the connection to this file; remove it")
    return f"{scheme}://{rest}"


def database_name(uri: str) -> str:
    """Return a URI without user, password and options.

    >>> database_name("postgresql://ada:secret@db.example.com:5433/shop?sslmode=require")
    'postgresql://db.example.com:5433/shop'
    """
    if DATABASE_FILE.fullmatch(uri):
        return uri
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
