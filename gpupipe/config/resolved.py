"""Write a configuration back with every default filled in."""

from __future__ import annotations

import re
from typing import Any

import yaml

from gpupipe.config.environment import escape
from gpupipe.config.scalars import Dumper
from gpupipe.config.sections import Config

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def resolved_yaml(config: Config) -> str:
    """Return YAML that `load_config` reads as an equal configuration.

    What came from the environment stands there as the value that was read; only the user and password in a URL are
    masked, so a source that needs them has to be given them anew (from the environment, best).
    """
    values = _for_writing(config.model_dump(mode="json", by_alias=True))
    return yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)


def _for_writing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _for_writing(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_for_writing(item) for item in value]
    return escape(_CREDENTIALS.sub("***@", value)) if isinstance(value, str) else value
