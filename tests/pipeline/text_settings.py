"""The text settings of a configuration, and the search for texts in the files of a run."""

from __future__ import annotations

import base64
import codecs
import gzip
import html
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import quote, quote_plus

import pyarrow.parquet as pq
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from gpupipe.config import Config
from gpupipe.config.load import known_words
from gpupipe.errors import SchemaError
from gpupipe.features import OPS, FeatureOp
from gpupipe.models import MODELS, ModelSettings
from gpupipe.settings import Settings
from gpupipe.table.schema import declare


def is_public(text: str, shown: set[str]) -> bool:
    """Return whether a text may be shown: short, of a table, a word of gpupipe, a date, a duration, or a number."""
    if len(text) < 4 or text in shown or text in known_words() or re.fullmatch(r"[\d.-]+\w{0,3}", text):
        return True
    try:
        declare(text)
    except SchemaError:
        pass
    else:
        return True
    try:
        codecs.lookup(text)
    except (LookupError, ValueError):
        return False
    return True


def text_settings() -> set[str]:
    """Return the path of every setting that takes a text, from the classes of the configuration.

    Positions in lists are dropped; ``*`` is any key. An op or a model has its name: ``models.xgboost.eval_metric``.
    """
    return set(_of_fields(Config, ""))


def _of_fields(section: type[Settings], path: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield from _of_field(field, f"{path}.{field.alias or name}".lstrip("."))


def _of_field(field: FieldInfo, path: str) -> Iterator[str]:
    for annotation in (field.annotation, *_also_taken(field.metadata)):
        yield from _of_annotation(annotation, path)


def _also_taken(metadata: Any) -> list[Any]:
    """Return the types that validators take in addition, such as text for a size in bytes."""
    taken = [each.json_schema_input_type for each in metadata if isinstance(each, BeforeValidator)]
    return [each for each in taken if isinstance(each, type | UnionType) or get_origin(each) is not None]


def _of_annotation(annotation: Any, path: str) -> Iterator[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for each in (arguments[0], *_also_taken(arguments[1:])):
            yield from _of_annotation(each, path)
    elif origin in (Union, UnionType, tuple, list):
        for each in arguments:
            yield from _of_annotation(each, path)
    elif origin is dict:
        yield from _of_annotation(arguments[1], f"{path}.*")
    elif annotation in (str, Any):
        yield path
    elif annotation is FeatureOp:
        for name, op in OPS.items():
            yield from _of_fields(op, f"{path}.{name}")
    elif annotation is ModelSettings:
        for name, model in MODELS.items():
            yield from _of_fields(model, f"{path.removesuffix('.params')}.{name}")
    elif isinstance(annotation, type) and issubclass(annotation, Settings):
        yield from _of_fields(annotation, path)


Replace = Callable[[tuple[str, ...], str], str]


def with_texts(document: Any, replace: Replace, path: tuple[str, ...] = ()) -> Any:
    """Return a document with `replace` applied to the path and value of each text, in order."""
    if isinstance(document, dict):
        return {key: with_texts(value, replace, (*path, key)) for key, value in document.items()}
    if isinstance(document, list):
        return [with_texts(value, replace, (*path, str(i))) for i, value in enumerate(document)]
    return replace(path, document) if isinstance(document, str) else document


def texts_of(document: Any) -> list[tuple[str, ...]]:
    """Return the path of each text of a document, in order."""
    found = list[tuple[str, ...]]()

    def add(path: tuple[str, ...], text: str) -> str:
        found.append(path)
        return text

    with_texts(document, add)
    return found


def setting_of(path: tuple[str, ...], known: set[str]) -> str:
    """Return the setting that a path of a document belongs to, as `text_settings` has it; a short form: its field."""
    plain = [step for step in path if not step.isdecimal()]
    if plain[0] == "features" and len(plain) == 2:
        return f"{'.'.join(plain)}.columns"
    if plain[0] == "models" and plain[1] == "tune":
        return "models.tune.space.*.choices" if "space" in plain else ".".join(plain)
    for steps in product(*((step, "*") for step in plain)):
        for found in (".".join(steps), f"{'.'.join(steps)}.kind"):  # schema: {age: float}
            if found in known:
                return found
    return ".".join(plain)  # a choice


def find(texts: Mapping[str, str], folder: Path, others: Mapping[str, str] = {}) -> dict[str, list[str]]:
    """Return the texts that occur in the files below a folder or in `others`, each with the places.

    `texts` has a name for each. Case is ignored. Contents of archives and of Parquet files are searched too.
    """
    contents = {name: content.encode(errors="surrogateescape") for name, content in others.items()}
    for path in folder.rglob("*"):
        contents[f"the name {path.relative_to(folder)}"] = str(path.relative_to(folder)).encode()
        if path.is_file():
            contents |= dict(_contents(str(path.relative_to(folder)), path.read_bytes()))
    lower = {place: content.lower() for place, content in contents.items()}
    found: dict[str, list[str]] = {}
    for text, name in texts.items():
        forms = _encoded(text)
        if places := [place for place, content in lower.items() if any(form in content for form in forms)]:
            found[name] = places
    return found


def _contents(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, content
    if content.startswith(b"\x1f\x8b"):
        yield from _contents(f"{name} unpacked", gzip.decompress(content))
    elif content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from _contents(f"{name}/{member}", archive.read(member))
    elif content.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(content))
        yield f"{name} read", f"{table.schema.metadata}{table.to_pydict()}".encode()


def _encoded(text: str) -> set[bytes]:
    """Return a text in the encodings that files have it in."""
    plain = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    plain |= {html.escape(text), html.escape(text, quote=False), quote(text), quote(text, safe=""), quote_plus(text)}
    forms = {form.encode(code) for form in plain for code in ("utf-8", "utf-16-le", "utf-32-le")}
    raw = text.encode()
    for skipped in range(3):  # base64 of a longer text that contains it
        inner = base64.b64encode(b"\0" * skipped + raw)[(0, 2, 3)[skipped] :].rstrip(b"=")
        forms.add(inner[: len(inner) - 1])
    return {form.lower() for form in forms}
