"""Checks of installed plug-ins, in a child process: importing one can abort or hang."""

from __future__ import annotations

from itertools import chain
from typing import cast

from gpupipe.doctor.finding import Finding, Level
from gpupipe.doctor.processes import evaluate_in_child
from gpupipe.entry_points import KINDS, installed_plugins

CHECK = "plug-ins"


def plugin_findings(timeout_seconds: float) -> list[Finding]:
    """Return a finding for each installed plug-in; none without plug-ins."""
    of_groups = chain.from_iterable(installed_plugins(group).values() for group in KINDS)
    titles = [plugin.title for plugin in chain.from_iterable(of_groups)]
    if not titles:
        return []
    code = "from gpupipe.plugins.states import plugin_states"
    failure, states = evaluate_in_child(code, "plugin_states()", timeout_seconds)
    if failure:
        return [Finding("error", CHECK, f"{', '.join(titles)}; loading them failed: {failure}", "remove its package")]
    return [Finding(cast(Level, state["level"]), CHECK, state["found"], state["fix"]) for state in states or ()]
