"""The ``limits:`` section: resource limits of a run, and prices."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpupipe.settings import Seconds, Settings, Size

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Settings):
    """Prices in any one currency."""

    hour: Price = Field(default=0.0, description="Price of the machine per hour of wall-clock time.")
    gpu_hour: Price = Field(default=0.0, description="Price of one GPU per hour.")
    kwh: Price = Field(default=0.0, description="Price of energy per kWh.")


class Power(Settings):
    """Wattage to assume on machines without an energy meter that this process can read."""

    cpu: Positive | None = Field(
        default=None, description="Constant power of one machine without its GPUs, in watts. Null: measured."
    )
    gpu: Positive | None = Field(default=None, description="Constant power of one GPU, in watts. Null: measured.")


class Limits(Settings):
    """Limits of a run. A run that reaches one stops at the next safe point with exit code 3; --resume continues it."""

    memory: Size | None = Field(
        default=None,
        description="Host memory of the run: bytes, or text such as `2GiB`. Null: the memory available to the process.",
    )
    time: Seconds | None = Field(
        default=None,
        description="Wall-clock time: seconds, or text such as `90s`, `15min` or `2h`. Null: no limit.",
    )
    gpu_hours: Positive | None = Field(
        default=None, description="Number of GPUs that the run holds, multiplied by hours. Null: no limit."
    )
    energy: Positive | None = Field(
        default=None, description="Energy of the machine's processors and the run's GPUs, in kWh. Null: no limit."
    )
    cost: Positive | None = Field(default=None, description="Cost in the currency of `price`. Null: no limit.")
    price: Prices = Field(default_factory=Prices, description="Prices of an hour, a GPU hour and a kWh.")
    power: Power = Field(default_factory=Power, description="Power to assume where energy cannot be measured.")

    @property
    def of_a_run(self) -> dict[str, float]:
        """The limits on what a run accumulates (all except memory), by name."""
        found = {"time": self.time, "gpu_hours": self.gpu_hours, "energy": self.energy, "cost": self.cost}
        return {name: limit for name, limit in found.items() if limit is not None}

    @model_validator(mode="after")
    def _a_cost_has_a_price(self) -> Limits:
        if self.cost is not None and not any((self.price.hour, self.price.gpu_hour, self.price.kwh)):
            raise ValueError("cost needs a price; set one, as in price: {hour: 3.2}")
        return self
