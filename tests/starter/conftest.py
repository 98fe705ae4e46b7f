"""Small tables with one trait each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gpupipe.backends import DeviceReport, GpuProbe, MemoryFigures
from gpupipe.config import Config, load_config
from gpupipe.starter.starter import make_starter

ROWS = 300
# Starter configurations depend on the machine; the tests simulate one without a GPU.
DEVICE = DeviceReport(
    GpuProbe(False, "no NVIDIA driver", obstacle="no_driver"), (), "no NVIDIA driver", 2, MemoryFigures(1, 1, 1)
)


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two numbers, a category, and a target ``y`` that depends on them with noise."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=ROWS)
    return pd.DataFrame(
        {
            "x": x.round(4),
            "visits": generator.poisson(3, ROWS),
            "city": generator.choice(["Ulm", "Bonn", "Kiel"], ROWS),
            "y": np.where(x + generator.normal(size=ROWS) > 0, "Yes", "No"),
        }
    )


Init = Callable[..., "Made"]


class Made:
    """A configuration that was written: its text, its plain values, and as it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.values = yaml.safe_load(self.text)
        self.config: Config = load_config(path)

    @property
    def source(self) -> dict[str, object]:
        """The ``source:`` section as it is written."""
        section: dict[str, object] = self.values["source"]
        return section

    def comment_on(self, entry: str) -> str:
        """Return the comment on the one line that begins with `entry`."""
        (line,) = [line for line in self.text.splitlines() if line.strip().startswith(entry)]
        return line.partition("  # ")[2]


@pytest.fixture
def init(tmp_path: Path) -> Init:
    """``init(frame)`` or ``init(path)`` writes a configuration, checks it and returns it."""

    def run(table: pd.DataFrame | Path, target: str = "y") -> Made:
        if isinstance(table, pd.DataFrame):
            path = tmp_path / "table.csv"
            table.to_csv(path, index=False)
        else:
            path = table
        config = tmp_path / "starter.yaml"
        config.write_text(make_starter(str(path), target, config, DEVICE).text, encoding="utf-8")
        return Made(config)

    return run
