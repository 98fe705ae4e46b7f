"""Write a configuration, load it, and return the problems found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpupipe.config import Config, load_config
from gpupipe.errors import ConfigError

MINIMAL = "source: {generate: churn, target: churned}\n"


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    """Load the configuration of a text, as ``c.yaml``; ``source`` need not be given."""

    def load(text: str, *overrides: str, **environment: str) -> Config:
        path = tmp_path / "c.yaml"
        path.write_text(text if "source:" in text else MINIMAL + text, encoding="utf-8")
        return load_config(path, overrides, environment=environment)

    return load


@pytest.fixture
def problems(load: Callable[..., Config], tmp_path: Path) -> Callable[..., Sequence[str]]:
    """The problems of a wrong configuration, without the folder of the file."""

    def problems(text: str, *overrides: str, **environment: str) -> Sequence[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, *overrides, **environment)
        return [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]

    return problems
