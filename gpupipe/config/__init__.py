"""The configuration: YAML in, one checked and immutable `Config` out."""

from __future__ import annotations

from gpupipe.config.load import load_config, parse_config
from gpupipe.config.models import ModelEntry
from gpupipe.config.resolved import resolved_yaml
from gpupipe.config.schema import json_schema
from gpupipe.config.sections import Config

__all__ = ["Config", "ModelEntry", "json_schema", "load_config", "parse_config", "resolved_yaml"]
