"""Energy meters of the hardware that a run uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.backends.base import Backend
from gpupipe.backends.energy import ConstantPower, EnergyMeter, EnergyUnavailable, NvmlMeter, RaplMeter
from gpupipe.config import Config
from gpupipe.config.limits import Limits
from gpupipe.errors import ConfigError
from gpupipe.models.neural.ranks.torchrun import local_world_size, world_size

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

GIVE_WATTS = "set the wattage to assume, as in limits: {power: {cpu: 150, gpu: 700}}"


@dataclass(frozen=True)
class RunHardware:
    """Hardware that a run uses.

    `n_gpus` returns the number of GPUs that the run holds now. `are_elsewhere` is true if some meters are on other
    machines.
    """

    n_gpus: Callable[[], int]
    n_machines: int = 1
    are_elsewhere: bool = False

    @classmethod
    def of(cls, config: Config, backend: Backend, workers: Workers | None, n_processes: int) -> RunHardware:
        """Return the hardware of a run: this machine, or the workers of a cluster."""
        if workers is None:
            here = local_world_size()
            n_gpus = max(n_processes, world_size()) if backend.name == "gpu" else 0
            return cls(lambda: n_gpus, max(1, world_size() // here), world_size() > here)

        def n_gpus_of_workers() -> int:
            return workers.n_workers if workers.device == "gpu" else 0

        if config.cluster.scheduler == "local":
            return cls(n_gpus_of_workers)
        hosts = {use.address.rpartition(":")[0] for use in workers.usage()}
        return cls(n_gpus_of_workers, max(1, len(hosts)), True)


def meters_of(limits: Limits, machines: RunHardware) -> list[tuple[str, EnergyMeter]]:
    """Return the energy meters of a run with what they measure ("cpu", "gpu"); none without a limit or price of energy.

    Raise ConfigError if the energy cannot be measured and ``limits.power`` is not set.
    """
    if limits.energy is None and not limits.price.kwh:
        return []
    n_gpus = machines.n_gpus()
    meters = [("cpu", _meter("cpu", RaplMeter, limits, machines.n_machines, machines))]
    if n_gpus:
        meters.append(("gpu", _meter("gpu", lambda: NvmlMeter(n_gpus), limits, n_gpus, machines)))
    return meters


def require_meters(limits: Limits, n_gpus: int) -> None:
    """Raise the ConfigError of `meters_of` for a run on this machine, without measuring."""
    for _, meter in meters_of(limits, RunHardware(lambda: n_gpus)):
        meter.close()


def _meter(
    whose: str, measured: Callable[[], EnergyMeter], limits: Limits, n: int, machines: RunHardware
) -> EnergyMeter:
    try:
        if machines.are_elsewhere:
            raise EnergyUnavailable("the run computes on other machines")
        return measured()
    except EnergyUnavailable as error:
        watts = getattr(limits.power, whose)
        if watts is not None:
            return ConstantPower(watts * n)
        what = f"cannot measure the energy of the {whose.upper()}: {error}"
        raise ConfigError(what, where=f"limits.{'energy' if limits.energy else 'price.kwh'}", fix=GIVE_WATTS) from None
