"""Prices of machines and electricity, read from a YAML file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.plan.gpu_choice.gpu_specs import require_known

CPU = "cpu"
KWH = "kwh"
CURRENCY = "currency"
JOULES_PER_KWH, SECONDS_PER_HOUR = 3.6e6, 3600


@dataclass(frozen=True)
class HourPrices:
    """Prices in one currency.

    `gpus` has the price of an hour of a machine with the GPU, by key; `cpu` is that of an hour of this machine, and
    `kwh` that of electricity, for hardware without a price per hour.
    """

    gpus: dict[str, float] = field(default_factory=dict)
    cpu: float | None = None
    kwh: float | None = None
    currency: str = ""

    def cost(self, hour: float | None, seconds: float, watts: float | None) -> float | None:
        """Return the cost of `seconds`, by the price of an hour or else of electricity; None if both are unknown."""
        if hour is not None:
            return hour * seconds / SECONDS_PER_HOUR
        if self.kwh is None or watts is None:
            return None
        return self.kwh * watts * seconds / JOULES_PER_KWH


def read_prices(path: Path, known: Iterable[str]) -> HourPrices:
    """Return the prices of a file.

    Raise ConfigError if the file cannot be read, names an unknown GPU, or a price is not a number of at least 0.
    """
    import yaml

    example = "for example: {currency: USD, kwh: 0.3, cpu: 0.2, h100-sxm: 2.5}, prices of one hour"
    try:
        given: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the prices: {error.strerror}", where=str(path), fix="check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError("the prices are not valid YAML", where=str(path), fix=f"write a mapping, {example}") from None
    if not isinstance(given, dict) or not given:
        raise ConfigError("expected a mapping of prices", where=str(path), fix=f"write one, {example}")
    currency = given.pop(CURRENCY, "")
    if not isinstance(currency, str):
        raise ConfigError(f"expected text, got {currency!r}", where=f"{path}: {CURRENCY}", fix="write USD or EUR")
    require_known(map(str, given), [CPU, KWH, CURRENCY, *known], str(path))
    for key, price in given.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            fix = "write the price of an hour (kwh: of a kWh) as a number, without a unit"
            raise ConfigError(f"expected a number of at least 0, got {price!r}", where=f"{path}: {key}", fix=fix)
    gpus = {key: float(price) for key, price in given.items() if key not in (CPU, KWH)}
    return HourPrices(gpus, given.get(CPU), given.get(KWH), currency)
