"""Loading of configurations and of feature ops: compose, apply ``--set``, validate, report all errors at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from gpupipe.config.composer import MAX_CHARACTERS, Composer
from gpupipe.config.document import Node, Problem, UnreadableDocument, build_tree
from gpupipe.config.error_text import describe_python_value
from gpupipe.config.features import OpItem
from gpupipe.config.model_contents import secrets_in_model
from gpupipe.config.overrides import apply_override
from gpupipe.config.paths import resolve_paths
from gpupipe.config.problems import problems_of
from gpupipe.config.redacted_output import redact_output
from gpupipe.config.redaction import Redactor
from gpupipe.config.sections import Config, ConfigOrigin
from gpupipe.config.shorthand import expand, expand_op
from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.features import OPS, FeatureOp
from gpupipe.io.file_formats import format_of
from gpupipe.io.frame_field import is_in_memory
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS
from gpupipe.names import count_noun
from gpupipe.settings import Settings

MAX_BYTES = 4 * MAX_CHARACTERS + 4  # one more character than allowed, in UTF-8
ROWS, COLUMNS = 30, 160  # size of a screen
YAML = (".yaml", ".yml")
URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+")
# First bytes of Parquet, Arrow, ORC, gzip, zip, bzip2, xz and Zstandard files.
MAGIC = (b"PAR1", b"ARROW1", b"ORC", b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
MOST_FOLDERS = 100  # that are searched for tables
LABELS = ("name",), ("models", "*", "as"), ("report", "title"), ("track", "tags", "*")


def load_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
) -> Config:
    """Load and validate a YAML configuration file; open no table and run no code.

    Parameters
    ----------
    path : str or Path
    overrides : sequence of str
        Changes of single fields, applied in order: ``["models.xgboost.params.max_depth=8", "seed=8"]``.
    environment : mapping of str to str, optional
        Values for ``${NAME}``. Default: ``os.environ``.

    Returns
    -------
    Config
        With every default filled in.

    Raises
    ------
    ConfigError
        If the file cannot be read, is not valid YAML, or has errors. ``problems`` has one line per error, at most one
        screen of them: ``file:line:column: path: what; did you mean``.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "churn.yaml")
    ...     _ = path.write_text("source: {generate: churn, rows: 1000, target: Churn}\\nmodels: [xgboost]\\n")
    ...     config = gp.load_config(path, ["models.xgboost.params.max_depth=8"])
    >>> config.name, config.seed, config.models[0].params.max_depth
    ('churn', 0, 8)
    """
    require_path(path)
    require_overrides(overrides)
    path = Path(path)
    if _is_table(path):
        raise ConfigError(f"expected a configuration file; got a table: {_written(path)}", fix=_init_advice(path))
    composer = Composer(os.environ if environment is None else environment, problems=[])
    try:
        root = composer.file(_read(path), str(path))
    except UnreadableDocument as error:
        problem = replace(error.problem, what=_redactor(composer).hide(error.problem.what))
        fix = "" if path.suffix in YAML else f"if it is a table: {_init_advice(path)}"
        raise ConfigError(heading(str(path), [problem]), problems=in_lines([problem]), fix=fix) from None
    return _build(root, overrides, composer, str(path), ConfigOrigin(path))


def parse_config(
    settings: Mapping[str, Any], overrides: Sequence[str] = (), *, source: Mapping[str, Any] | None = None
) -> Config:
    """Return the configuration of a mapping, as `load_config` does for a file; ``${NAME}`` is plain text.

    - `settings`: the sections of a configuration file; frames, kernels and ops may be objects.
    - `overrides`: as in `load_config`.
    - `source`: further fields of the ``source`` section; messages name them without the section.

    Raise ConfigError as `load_config`; ``problems`` have the path of each value instead of file, line and column.
    """
    require_overrides(overrides)
    composer = Composer(os.environ, problems=[])
    root = build_tree(settings)
    for name, value in (source or {}).items():
        _place_argument(root, name, value, composer.problems)
    return _build(root, overrides, composer, "the settings", ConfigOrigin())


def _place_argument(root: Node, name: str, value: Any, problems: list[Problem]) -> None:
    assert isinstance(root.value, dict)
    section = root.value["source"].value
    assert isinstance(section, dict)
    if name in section:
        problems.append(Problem("", name, f"given twice: as an argument, and as source[{name!r}]"))
    section[name] = build_tree(value, path=name)


def require_path(path: object) -> None:
    """Raise ConfigError unless `path` is a str or a path object."""
    if isinstance(path, str | os.PathLike):
        return
    if isinstance(path, Mapping):
        fix = "use gp.Pipeline.from_dict for a dict of sections"
    elif is_in_memory(path):
        fix = "use gp.Pipeline(frame, target=...) for a frame"
    else:
        fix = 'pass a str or a pathlib.Path, such as "configs/churn.yaml"'
    raise ConfigError(f"expected the path of a YAML file; got {describe_python_value(path)}", where="path", fix=fix)


def require_overrides(overrides: object) -> None:
    """Raise ConfigError unless `overrides` is a list or tuple of str."""
    if isinstance(overrides, list | tuple) and all(isinstance(override, str) for override in overrides):
        return
    what = f"expected a list of str; got {describe_python_value(overrides)}"
    raise ConfigError(what, where="overrides", fix='write overrides=["seed=8", "split.test_size=0.3"]')


def _build(root: Node, overrides: Sequence[str], composer: Composer, title: str, origin: ConfigOrigin) -> Config:
    problems = composer.problems
    expand(root, problems)
    for override in overrides:
        apply_override(root, override, composer)
        expand(root, problems)
    resolve_paths(root, origin.folder)
    _keep_labels_as_written(root)
    redactor = _redactor(composer)
    with redact_output(redactor):
        config = _validate(root, origin, problems)
        if config is not None and redactor:
            problems.extend(secrets_in_model(root, redactor.values))
        if config is None or problems:
            raise _error(title, problems)
    config._origin = replace(origin, document=root, redactor=redactor)
    return config


def _keep_labels_as_written(root: Node) -> None:
    """Keep ``${NAME}`` unexpanded in settings that only label results: folders, reports, models, trackers show them."""
    for steps in LABELS:
        for node in root.at(*steps):
            if node.written is not None:
                node.value = node.written.shown


def _redactor(composer: Composer) -> Redactor:
    """Return a redactor of the secret values that the composer found."""
    secrets = composer.secrets and {n: value for n, value in composer.secrets.items() if value not in known_words()}
    if not secrets:
        return Redactor()
    references = [f"${{{name}}}" for name in secrets]
    settings = {text: shown for text, shown in composer.settings.items() if any(r in shown for r in references)}
    return Redactor(secrets, settings)


def _validate(root: Node, origin: ConfigOrigin, problems: list[Problem]) -> Config | None:
    """Return the configuration, or None after appending the new errors to `problems`."""
    settings = root.plain()
    if origin.path:
        settings.setdefault("name", os.fsencode(origin.path.stem).decode(errors="replace"))
    try:
        config = Config.model_validate(settings)
    except ValidationError as error:
        unread = {problem.path for problem in problems}  # not to be reported as missing too
        problems.extend(new for new in problems_of(error, root, Config) if not _follows_from(new, unread))
        return None
    config._origin = origin
    return config


def _follows_from(problem: Problem, unread: set[str]) -> bool:
    """Return whether `problem` is about a value that could not be read, or about a section with such a value."""
    return any(path == problem.path or path.startswith((f"{problem.path}.", f"{problem.path}[")) for path in unread)


def _error(title: str, problems: Sequence[Problem]) -> ConfigError:
    return ConfigError(heading(title, problems), problems=in_lines(problems))


def heading(title: str, problems: Sequence[Problem]) -> str:
    """Return the heading of a list of errors: ``2 errors in churn.yaml:``."""
    return f"{count_noun(len(problems), 'error')} in {title}:"


def in_lines(problems: Sequence[Problem]) -> list[str]:
    """Return one line per error in file order, at most one screen of them."""
    return _one_screen([str(problem) for problem in sorted(problems, key=_reading_order)])


def _one_screen(lines: list[str]) -> list[str]:
    """Return the lines that fit on one screen, and the number of the others."""
    rows = 0
    for i, line in enumerate(lines):
        rows += 1 + len(line) // COLUMNS
        if i and rows > ROWS:
            return [*lines[:i], f"and {len(lines) - i} more"]
    return lines


def _reading_order(problem: Problem) -> tuple[bool, list[int]]:
    """Return the sort key of a problem: line and column; those of ``--set`` come last, in their order."""
    if problem.where.startswith("--set "):
        return True, []
    return False, [int(number) for number in problem.where.split(":")[-2:] if number.isdecimal()]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:  # limited, because a device file has no end
            return file.read(MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"configuration file not found: {path}", fix=_what_is_there(path)) from None
    except IsADirectoryError:
        fix = _what_is_there(path / "any")
        raise ConfigError(f"expected a configuration file, got the folder {path}", fix=fix) from None
    except UnicodeDecodeError as error:
        fix = f"check that it is a YAML file, and save it as UTF-8; if it is a table: {_init_advice(path)}"
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})", fix=fix) from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="check its permissions") from None


def _is_table(path: Path) -> bool:
    """Return whether a path is that of a table: by its suffix, its first bytes, or the files in the folder."""
    if path.suffix in YAML:
        return False
    if format_of(str(path)) is not None or URL.match(str(path)):
        return True
    if path.is_dir():
        names = list(chain.from_iterable(files for _, _, files in islice(os.walk(path), MOST_FOLDERS)))
        return any(map(format_of, names)) and not any(name.endswith(YAML) for name in names)
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(8).startswith(MAGIC)
    except OSError:
        return False


def _written(path: Path) -> str:
    """Return a path or URL as it was written; a `Path` has one slash after the scheme."""
    return URL.sub(r"\1://", str(path))


def _init_advice(path: Path) -> str:
    return f"write a configuration for it: `gpupipe init {quote(_written(path))} --target COLUMN`"


def _what_is_there(path: Path) -> str:
    """Return advice that names the YAML files near `path`."""
    folders = [path.parent, Path(), Path("configs")]
    found = chain.from_iterable(folder.glob("*.y*ml") for folder in folders)
    near = sorted({str(file) for file in found})
    if not near:
        return "`gpupipe init DATA --target COLUMN` writes one"
    return did_you_mean(str(path), near) or f"YAML files nearby: {', '.join(near[:12])}"


@cache
def known_words() -> frozenset[str]:
    """Return all keywords of configurations: names of ops, models and metrics, and values of choices.

    Examples
    --------
    >>> {"median", "stratify", "xgboost", "roc_auc"} - known_words()
    {'stratify'}
    """
    words = {*OPS.known_names(), *MODELS.known_names(), *METRICS.known_names()}
    waiting: list[Any] = [Config, *(op for _, op in OPS.items()), *(model for _, model in MODELS.items())]
    seen = set()
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, Settings):
            if annotation not in seen:
                seen.add(annotation)
                waiting += [field.annotation for field in annotation.model_fields.values()]
        elif get_origin(annotation) is Literal:
            words |= {word for word in get_args(annotation) if isinstance(word, str)}
        else:
            waiting += get_args(annotation)
    return frozenset(words)


def is_configuration(path: Path) -> bool:
    """Return whether a file is empty or has the sections of a configuration; their contents are not validated.

    Raise OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES)
    if not content.strip():
        return True
    try:
        root = Composer({}, problems=[]).file(content.decode("utf-8-sig"), str(path))
    except (UnreadableDocument, UnicodeDecodeError):
        return False
    sections = set(root.value) if isinstance(root.value, dict) else set()
    return "source" in sections and sections <= set(Config.model_fields)


class OpList(Settings):
    """List of ops in any of their forms."""

    ops: tuple[OpItem, ...]


def parse_ops(ops: Any) -> tuple[FeatureOp, ...]:
    """Return the ops of a list like that of the section ``features``.

    Raise ConfigError with one line in ``problems`` per error, such as ``ops[0].impute.strategy: expected …``.

    Examples
    --------
    >>> parse_ops([{"impute": "age"}])[0].columns
    'age'
    """
    root = build_tree({"ops": ops}, "")
    assert isinstance(root.value, dict)
    if isinstance(root.value["ops"].value, list):
        for item in root.value["ops"].value:
            expand_op(item)
    try:
        return OpList.model_validate(root.plain()).ops
    except ValidationError as error:
        raise _error("the feature ops", list(problems_of(error, root, OpList))) from None
