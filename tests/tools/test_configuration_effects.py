"""The table of SECURITY.md about the effects of a configuration, compared with what the commands do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpupipe.config import json_schema
from tools import configuration_effects
from tools.configuration_effects import COMMANDS, FIELDS, PAGE, read_table

RUNS = {"run"}  # `run` executes a configuration by design, and takes longest
ACCESS = re.compile(r"\b(file|folder|path|address|server|url|uri|catalog|query)s?\b", re.IGNORECASE)
WITHOUT_ACCESS = {
    "source", "output", "name", "names", "format", "generate", "csv", "isolate", "entities", "encoding", "strip",
    "experiment", "version", "interaction_cst", "interaction_constraints", "fail_on",
}  # fmt: skip
"""Fields whose descriptions mention a file, and that open none by themselves."""


def observed(*commands: str) -> dict[str, dict[str, str]]:
    """Return the effects, observed by a process that has used no thread before it forks."""
    program = (
        "import json, sys; from tools.configuration_effects import observe; print(json.dumps(observe(sys.argv[1:])))"
    )
    done = subprocess.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, cwd=PAGE.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def require_equal(commands: list[str]) -> None:
    page = read_table(PAGE.read_text())
    written = {name: {command: cells[command] for command in commands} for name, cells in page.items()}
    assert observed(*commands) == written, f"write it again: python -m {configuration_effects.__name__} --write"


@pytest.mark.skipif(sys.platform != "linux", reason="inotify and fork are needed")
def test_the_table_is_what_commands_that_do_not_train_do() -> None:
    require_equal([command for command in COMMANDS if command not in RUNS])


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="inotify and fork are needed")
def test_the_table_is_what_run_does() -> None:
    require_equal(sorted(RUNS))


def test_no_query_and_no_code_passes_the_flags_against_them() -> None:
    page = read_table(PAGE.read_text())
    for name in ("hook", "kernel", "estimator", "query", "server"):
        for command in ("check --no-code", "plan --no-code", "gpus --no-code"):
            assert page[name][command] == "refused", (name, command)
        assert "runs" not in page[name]["check --no-data"]
    for command in set(COMMANDS) - RUNS:
        assert not [name for name, cells in page.items() if "writes" in cells[command]], command


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for section in (schema, *schema["$defs"].values()):
        for name, field in section.get("properties", {}).items():
            if '"string"' in json.dumps(field):
                yield name, field.get("description", "")


def test_each_setting_that_may_lead_to_a_file_or_server_is_in_the_table() -> None:
    found = {name for name, description in fields(json_schema()) if ACCESS.search(description)}
    assert found - FIELDS - WITHOUT_ACCESS == set(), "add an input for it to tools/configuration_effects.py"
