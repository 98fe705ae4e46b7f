"""The ``limits:`` section: what a run may use before it stops, and what that costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpupipe.settings import Seconds, Settings, Size

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Settings):
    """What is to be paid, in any one currency; what has no price costs nothing."""

    hour: Price = Field(default=0.0, description="Of the run's wall clock: the machine's price.")
    gpu_hour: Price = Field(default=0.0, description="Of one GPU.")
    kwh: Price = Field(default=0.0, description="Of the energy.")


class Power(Settings):
    """Watts to reckon with where the machine has no meter that this process may read."""

    cpu: Positive | None = Field(default=None, description="One machine without its GPUs, all the time.")
    gpu: Positive | None = Field(default=None, description="One GPU, all the time.")


class Limits(Settings):
    """What a run may use. One that reaches a limit stops where it can go on later, and ends with exit code 3."""

    memory: Size | None = Field(default=None, description="Bytes of the host that the run may hold, as in 2GiB.")
    time: Seconds | None = Field(default=None, description="Wall clock, as in 90s, 15min or 2h; a number is seconds.")
    gpu_hours: Positive | None = Field(default=None, description="The GPUs that the run holds × hours.")
    energy: Positive | None = Field(default=None, description="kWh of the machine's processors and the run's GPUs.")
    cost: Positive | None = Field(default=None, description="In the currency of `price`.")
    price: Prices = Field(default_factory=Prices, description="What an hour, a GPU's hour and a kWh cost.")
    power: Power = Field(default_factory=Power, description="Watts, where energy cannot be measured.")

    @property
    def of_a_run(self) -> dict[str, float]:
        """Those that are reached as a run goes on, by name."""
        found = {"time": self.time, "gpu_hours": self.gpu_hours, "energy": self.energy, "cost": self.cost}
        return {name: limit for name, limit in found.items() if limit is not None}

    @model_validator(mode="after")
    def _a_cost_has_a_price(self) -> Limits:
        if self.cost is not None and not any((self.price.hour, self.price.gpu_hour, self.price.kwh)):
            raise ValueError("cost: nothing has a price; say one, as in price: {hour: 3.2}")
        return self
