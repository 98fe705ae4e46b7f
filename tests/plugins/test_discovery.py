"""Plug-ins are found by name, imported when they are used, and refused with their package and version."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.config.schema import json_schema
from gpupipe.doctor.packages import plugin_findings
from gpupipe.entry_points import installed_plugins
from gpupipe.features import OPS
from gpupipe.io.file_formats import READERS
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS
from gpupipe.plugins.states import plugin_states
from gpupipe.registry import Registry

Install = Callable[..., Path]
GROUPS: dict[str, Registry[Any]] = {
    "gpupipe.ops": OPS,
    "gpupipe.models": MODELS,
    "gpupipe.readers": READERS,
    "gpupipe.metrics": METRICS,
}
OP = """
from gpupipe.plugins import PluginOp

class Halve(PluginOp):
    columns: str
    def expand(self, columns):
        return [{"expression": {"half": f"`{self.columns}` / 2"}}]
"""
CONFIG = "source: {generate: churn, target: churned}\nfeatures: [{halve: tenure_months}]\nmodels: [ridge]\n"


def test_a_plugin_is_imported_when_its_name_is_used(install: Install, tmp_path: Path) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, OP)
    assert "halve" in OPS and "halve" in OPS.known_names() and "pkg_a" not in sys.modules
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    config = gp.load_config(path)
    assert config.features[0].title() == "halve" and "pkg_a" in sys.modules
    assert config.model_dump(mode="json")["features"] == [{"halve": {"columns": "tenure_months"}}]


@pytest.mark.parametrize("group", GROUPS)
def test_an_object_of_the_wrong_type_is_refused_with_its_package(install: Install, group: str) -> None:
    install("pkg-a", "1.0", {group: {"wrong": "pkg_a:THING"}}, "THING = 3")
    with pytest.raises(gp.ConfigError) as error:
        GROUPS[group].get("wrong")
    assert "pkg-a 1.0" in error.value.what and "'wrong'" in error.value.what and error.value.where == "pkg_a:THING"


def test_a_package_that_cannot_be_imported_is_an_error_at_its_line(install: Install, tmp_path: Path) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, "import no_such_library")
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    with pytest.raises(gp.ConfigError) as error:
        gp.load_config(path)
    (problem,) = error.value.problems
    assert "a.yaml:2:13" in problem and "pkg-a 1.0" in problem and "no_such_library" in problem


def test_two_packages_with_one_name_are_both_named(install: Install) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, OP)
    install("pkg-b", "2.0", {"gpupipe.ops": {"halve": "pkg_b:Halve"}}, OP)
    with pytest.raises(gp.ConfigError) as error:
        OPS.get("halve")
    assert "pkg-a 1.0" in error.value.what and "pkg-b 2.0" in error.value.what
    assert [state["level"] for state in plugin_states()] == ["error", "error"]


@pytest.mark.process
@pytest.mark.slow
def test_a_name_of_gpupipe_is_never_a_plugin_and_doctor_warns(install: Install) -> None:
    own = OPS.get("log1p")
    install("pkg-a", "1.0", {"gpupipe.ops": {"log1p": "pkg_a:Halve", "halve": "pkg_a:Halve"}}, OP)
    assert OPS.get("log1p") is own and OPS.plugin("log1p") is None and OPS.names().count("log1p") == 1
    fine, shadowed = plugin_findings(60)
    assert (fine.level, shadowed.level) == ("ok", "warning")
    assert "'halve' of pkg-a 1.0" in fine.found and "pip uninstall pkg-a" in shadowed.fix


def test_the_schema_has_installed_plugins(install: Install) -> None:
    source = OP.replace("class Halve", "class Log1p")  # the class name of an op of gpupipe
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Log1p"}, "gpupipe.readers": {"abc": "pkg_a:f"}}, source)
    schema = json_schema()
    assert "halve" in schema["properties"]["features"]["items"]["anyOf"][1]["properties"]
    assert "abc" in json.dumps(schema["$defs"]["Source"]["properties"]["format"]["enum"])


WRONG = [
    "import no_such_library",
    "raise SystemExit(3)",
    "raise GeneratorExit",
    "class Panic(BaseException):\n    pass\n\nraise Panic('two\\nlines' * 1000)",
    "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n\nraise Mute",
    "class Odd:\n    def __repr__(self):\n        raise ValueError\n\nHalve = Odd()",
    "Halve = 3",
    "def (",
    f"from collections.abc import Callable\n{OP}    f: Callable[[int], int] = abs\n",
    f"{OP}    f: 'NoSuchClass'\n",
    f"{OP}\n    @classmethod\n    def __get_pydantic_json_schema__(cls, core, handler):\n        raise RuntimeError\n",
]


@pytest.mark.parametrize("source", WRONG)
def test_a_broken_plugin_is_named_and_the_schema_has_the_others(
    install: Install, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"broken": "pkg_a:Halve"}, "gpupipe.models": {"odd": "pkg a:!"}}, source)
    install("pkg-b", "2.0", {"gpupipe.ops": {"halve": "pkg_b:Halve"}}, OP)
    assert main(["schema"]) == 0
    shown = capsys.readouterr()
    ops = json.loads(shown.out)["properties"]["features"]["items"]["anyOf"][1]["properties"]
    assert "halve" in ops and "broken" not in ops and ops.keys() >= set(OPS.builtin_names())
    warnings = shown.err.splitlines()
    assert len(warnings) == 2 and all("pkg-a 1.0" in line and len(line) < 500 for line in warnings)
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    assert main(["check", str(path), "--no-data"]) == 0  # with the plug-in that works
    assert main(["kernels", "--json"]) == 0


def test_what_a_plugin_prints_when_it_is_imported_is_not_part_of_a_document(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, f"print('loaded')\n{OP}")
    assert main(["schema"]) == 0
    shown = capsys.readouterr()
    json.loads(shown.out)
    assert shown.err == "loaded\n"


def test_ctrl_c_in_the_import_of_a_plugin_ends_the_command(install: Install) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        OPS.get("halve")


def test_configurations_without_plugins_do_not_search_for_them(install: Install, tmp_path: Path) -> None:
    install("pkg-a", "1.0", {"gpupipe.ops": {"halve": "pkg_a:Halve"}}, OP)
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG.replace("halve", "log1p"))
    gp.load_config(path)
    assert installed_plugins.cache_info().misses == 0
