"""The delay after which a target is known: settings that state it must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.config.features import op_name
from gpupipe.features.ops.keyed_op import HistoryOp
from gpupipe.io.event_settings import AS_OF
from gpupipe.splits.settings import parse_length
from gpupipe.units import parse_duration_us

if TYPE_CHECKING:
    from gpupipe.config.sections import Config


def target_histories(config: Config) -> list[tuple[int, HistoryOp]]:
    """Return the ops that read past values of the target, with their positions among the features."""
    targets = set(config.source.targets)
    return [
        (i, op)
        for i, op in enumerate(config.features)
        if isinstance(op, HistoryOp) and op.table is None and op.gap is not None and targets & {*op.value_columns()}
    ]


def target_delays(config: Config) -> list[tuple[str, str]]:
    """Return the durations after which targets are known, each with the setting that states it."""
    entities, found = config.source.entities, []
    if entities is not None and entities.label is not None and config.split.time == AS_OF:
        found.append((entities.label.within, "source.entities.label.within"))
    found += [(op.gap or "", f"features[{i}].{op_name(op)}.gap") for i, op in target_histories(config)]
    return found


def gap_errors(config: Config) -> list[InitErrorDetails]:
    """Return an error for each delay that contradicts ``split.gap``."""
    gap = config.split.gap
    if gap is None or parse_length(gap).unit != "us":
        return []
    gap_us, found = parse_length(gap).size, []
    for delay, where in target_delays(config):
        delay_us = parse_duration_us(delay, allow_zero=True)
        if gap_us < delay_us:
            what = (
                f"{gap} is shorter than {where} ({delay}), after which a target is known: training rows would have "
                f"targets from the time of the test rows; set gap: {delay}"
            )
            found.append(_error(what, ("split", "gap"), gap))
    for i, op in target_histories(config):
        if parse_duration_us(op.gap or "", allow_zero=True) < gap_us:
            what = (
                f"with a gap of {op.gap}, test rows see targets that are not known when a model serves: by split.gap, "
                f"a target is known after {gap}; set gap: {gap}"
            )
            found.append(_error(what, ("features", i, op_name(op), "gap"), op.gap))
    return found


def _error(what: str, at: tuple[str | int, ...], value: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("gap", "{what}", {"what": what}), loc=at, input=value)
