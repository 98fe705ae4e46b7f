"""Configuration: from YAML to one validated, immutable `Config`.

``load``         `load_config`: the stages below in order, with all their errors in one exception
``composer``     YAML text to a ``document`` of values with their line; ``scalars`` and ``environment`` parse values
``shorthand``    expansion of short forms of ops and models, and of estimator objects
``overrides``    ``--set a.b.c=value``
``paths``        resolution of relative paths
``sections``     `Config`; ``features`` and ``models`` look up ``registered_parts`` by name; ``cluster``, ``limits``,
                 ``trackers``, ``tuning``; ``event_ops``: settings of event tables
``problems``     pydantic's errors with line and column, worded for YAML or Python by ``error_text``; ``locations``:
                 the lines of settings, for errors that only the data shows
``advice``       advice in messages, translated to Python's notation
``redaction``    hiding of environment values in text, and in errors, logs and warnings (``redacted_output``);
                 ``model_contents`` refuses them where they would end up in the model
``resolved_yaml``  configuration to YAML: with every default filled in, or only what differs from the defaults
``schema``       JSON Schema
"""

from __future__ import annotations

from gpupipe.config.load import load_config, parse_config
from gpupipe.config.models import ModelEntry
from gpupipe.config.resolved_yaml import resolved_yaml
from gpupipe.config.schema import json_schema
from gpupipe.config.sections import Config

__all__ = ["Config", "ModelEntry", "json_schema", "load_config", "parse_config", "resolved_yaml"]
