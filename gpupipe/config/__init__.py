"""The configuration: YAML in, one checked and immutable `Config` out.

``load``         `load_config`: the stages below in their order, and all their mistakes in one error
``composer``     YAML text to a ``document`` whose values know their line; ``scalars``, ``environment``: its words
``shorthand``    short forms of ops and models, written in full
``overrides``    ``--set a.b.c=value``
``paths``        what a relative path is relative to
``sections``     `Config`; its ``features`` and ``models`` find their ``registered_parts`` by name; ``cluster``: workers
``problems``     pydantic's findings at their line and column, in the ``error_text`` of YAML or of Python
``advice``       what messages advise, in Python's notation
``redaction``    hides values of the environment in text, ``redacted_output`` in errors, logs and warnings;
                 ``model_contents`` refuses them where the model would contain them
``resolved_yaml``  the configuration back to YAML: every default filled in, or only what differs from the defaults
``schema``       its JSON Schema
"""

from __future__ import annotations

from gpupipe.config.load import load_config, parse_config
from gpupipe.config.models import ModelEntry
from gpupipe.config.resolved_yaml import resolved_yaml
from gpupipe.config.schema import json_schema
from gpupipe.config.sections import Config

__all__ = ["Config", "ModelEntry", "json_schema", "load_config", "parse_config", "resolved_yaml"]
