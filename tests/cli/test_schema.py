"""``gpupipe schema``, in a real process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import yaml

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


def test_schema_prints_json_that_validates_the_configuration(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("schema")
    assert result.returncode == 0
    jsonschema.validate(yaml.safe_load(churn.read_text()), json.loads(result.stdout))
