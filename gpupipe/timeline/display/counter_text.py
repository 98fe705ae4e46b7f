"""Hardware counters on a terminal: a line of the main values, and charts of block characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpupipe.backends.counters.counter import HardwareCounter
from gpupipe.report.hardware_text import count_gpus, format_counter, gpu_counter
from gpupipe.units import format_size

BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " ._-=+*%#"


def sample_line(values: Mapping[str, float], counters: Mapping[str, HardwareCounter]) -> str:
    """Return the main values in a line; "" without any.

    Of several GPUs, it has the mean utilization, the total memory and power, and the highest temperature.
    """
    of_gpus = list(_gpu_figures(values, counters))
    of_host = [
        f"CPU {format_counter(values['process_cpu_percent'], '%')}" if "process_cpu_percent" in values else "",
        format_size(values["process_memory_bytes"]) if "process_memory_bytes" in values else "",
    ]
    parts = [" · ".join(filter(None, group)) for group in (of_gpus, of_host)]
    return "   ".join(filter(None, parts))


def _gpu_figures(values: Mapping[str, float], counters: Mapping[str, HardwareCounter]) -> Iterator[str]:
    def of_each(quantity: str) -> dict[str, float]:
        return {name: value for name, value in values.items() if (gpu_counter(name) or ("", ""))[1] == quantity}

    n_gpus = count_gpus(values)
    if not n_gpus:
        return
    title = "GPU" if n_gpus == 1 else f"{n_gpus} GPUs"
    if busy := of_each("utilization_percent"):
        title += f" {sum(busy.values()) / len(busy):.0f} %"
    yield title
    if memory := of_each("memory_bytes"):
        total = sum(counters[name].limit or 0.0 for name in memory)
        yield format_size(sum(memory.values())) + (f" of {format_size(total)}" if total else "")
    if power := of_each("power_watts"):
        yield format_counter(sum(power.values()), "W")
    if temperatures := of_each("temperature_celsius"):
        yield format_counter(max(temperatures.values()), "°C")


def chart_lines(
    values: Sequence[float | None], width: int, height: int, limit: float | None, *, is_ascii: bool = False
) -> list[str]:
    """Return the last `width` values as columns of blocks, over `height` lines, the top one first.

    A missing value continues the one before it. `limit` is the value of a full column; by default, and if a value
    exceeds it, the largest value is.
    """
    blocks, steps = ASCII_BLOCKS if is_ascii else BLOCKS, 8
    shown: list[float] = []
    for value in values[-width:]:
        shown.append(value if value is not None else shown[-1] if shown else 0.0)
    top = max([limit or 0.0, *shown]) or 1.0
    # A value above 0 has at least the lowest block.
    levels = [max(round(value / top * height * steps), value > 0) for value in shown]
    lines = []
    for row in range(height - 1, -1, -1):
        line = "".join(blocks[min(max(level - row * steps, 0), steps)] for level in levels)
        lines.append(line.rjust(width))
    return lines
