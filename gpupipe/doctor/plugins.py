"""Checks of installed plug-ins, in a child process: importing one can abort or hang."""

from __future__ import annotations

import json
from typing import cast

from gpupipe.doctor.finding import Finding, Level
from gpupipe.doctor.processes import run_in_child
from gpupipe.entry_points import KINDS, installed_plugins

CHECK = "plug-ins"
CODE = "import json; from gpupipe.plugins.states import plugin_states; print(); print(json.dumps(plugin_states()))"


def plugin_findings(timeout_seconds: float) -> list[Finding]:
    """Return a finding for each installed plug-in; none without plug-ins."""
    titles = [p.title for group in KINDS for plugins in installed_plugins(group).values() for p in plugins]
    if not titles:
        return []
    failure, output = run_in_child(CODE, timeout_seconds)
    if failure:
        return [Finding("error", CHECK, f"{', '.join(titles)}; loading them failed: {failure}", "remove its package")]
    return [
        Finding(cast(Level, state["level"]), CHECK, state["found"], state["fix"])
        for state in json.loads(output.strip().splitlines()[-1])
    ]
