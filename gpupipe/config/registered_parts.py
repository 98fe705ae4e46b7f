"""Validation of registered parts (ops and models), whose settings depend on their name.

Only the parts that a configuration names are compiled by pydantic, on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.registry import Registry
from gpupipe.settings import Settings

Part = TypeVar("Part", bound=Settings)
Location = tuple[int | str, ...]


def find_part(registry: Registry[type[Part]], name: str) -> type[Part]:
    """Return the part registered as `name`, or the plug-in of that name.

    Raise PydanticCustomError if there is none, with the closest name, or if the plug-in cannot be loaded.
    """
    if name in registry:
        try:
            return registry.get(name)
        except ConfigError as error:
            raise PydanticCustomError("unknown_part", "{what}; {fix}", {"what": error.what, "fix": error.fix}) from None
    known = registry.known_names()
    hint = did_you_mean(name, known) or f"expected one of {', '.join(known)}, or an installed plug-in"
    raise PydanticCustomError("unknown_part", "unknown {kind}; {hint}", {"kind": registry.kind, "hint": hint})


def read_settings(model: type[Part], fields: Any, at: Location = ()) -> Part:
    """Return `fields` validated as `model`; errors are located below `at` and list the known keys if one is unknown."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise combine_errors(error.title, (located_error(model, detail, at) for detail in error.errors())) from None


def combine_errors(title: str, errors: Iterable[InitErrorDetails]) -> ValidationError:
    """Return one ValidationError with several pydantic errors, each with its location."""
    return ValidationError.from_exception_data(title, list(errors))


def located_error(model: type[Settings], detail: ErrorDetails, at: Location) -> InitErrorDetails:
    """Return an error of the settings class `model` with its location below `at`."""
    context = dict(detail.get("ctx", {}))
    if detail["type"] == "extra_forbidden":
        context.setdefault("known", known_keys(model, detail["loc"]))
    kind = PydanticCustomError(detail["type"], "{message}", {**context, "message": detail["msg"]})
    return InitErrorDetails(type=kind, loc=(*at, *detail["loc"]), input=detail["input"])


def known_keys(model: type[Settings], location: Location) -> tuple[str, ...]:
    """Return the keys that are allowed at the last step of `location`, which starts in `model`."""
    candidates = [model]
    for step in location[:-1]:
        below = list(chain.from_iterable(_settings_under(outer, step) for outer in candidates))
        candidates = below or [each for each in candidates if each.__name__ == step] or candidates
    return tuple(dict.fromkeys(chain.from_iterable(map(_keys, candidates))))


def homes_of(model: type[Settings], key: str) -> tuple[str, ...]:
    """Return the paths of the sections of `model` that have `key`: ``("split.cv",)``."""
    sections = {name: field.annotation for name, field in model.model_fields.items()}
    return tuple(
        f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, Settings) and key in _keys(section)
    )


def _keys(model: type[Settings]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def _settings_under(model: type[Settings], key: int | str) -> Iterator[type[Settings]]:
    """Yield the settings classes in the annotation of the field `key`, including those in unions and containers."""
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            waiting = [field.annotation]
            while waiting:
                annotation = waiting.pop()
                if isinstance(annotation, type) and issubclass(annotation, Settings):
                    yield annotation
                waiting.extend(get_args(annotation))
