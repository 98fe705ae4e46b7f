"""The files of the recipes: valid, with commands that gpupipe has, and with the versions of pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from gpupipe import errors
from tests.test_pages import check_options

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"
MANIFESTS = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))
WORKFLOW = yaml.safe_load((RECIPES / "argo.yaml").read_text())
TEMPLATES = {template["name"]: template for template in WORKFLOW["spec"]["templates"]}
FLOW = RECIPES / "prefect_flow.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ERROR_CODES = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"].get("template", {}).get("spec", {})


def test_each_file_is_in_a_page_and_each_page_in_the_index() -> None:
    pages = {path.stem: path.read_text() for path in RECIPES.glob("*.md")}
    shown = {name for text in pages.values() for name in re.findall(r"\{literalinclude\} (\S+)", text)}
    assert shown == {path.name for path in RECIPES.iterdir() if path.suffix in (".yaml", ".yml", ".py")}
    listed = re.search(r"\{toctree\}.*?\n\n(.*?)\n```", pages["index"], re.DOTALL)
    assert listed and set(listed[1].split()) == set(pages) - {"index"}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_a_manifest_fits_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    validator.validate(manifest, "1.31", strict=True)


def test_the_commands_of_the_manifests_have_these_options() -> None:
    commands = [container["command"] for manifest in MANIFESTS for container in pod_of(manifest).get("containers", ())]
    assert [command[:2] for command in commands] == [["gpupipe", "run"], ["gpupipe", "serve"]]
    for command in commands:
        check_options(command[1:])


def test_the_manifests_fit_together() -> None:
    job, deployment, service = MANIFESTS
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    (training,), (server,) = pod_of(job)["containers"], pod_of(deployment)["containers"]
    run = training["command"][training["command"].index("--output") + 1]
    assert server["command"][2] == f"{training['workingDir']}/{run}"
    assert service["spec"]["ports"][0]["targetPort"] == server["ports"][0]["name"]
    assert str(server["ports"][0]["containerPort"]) in server["command"]
    rule = job["spec"]["podFailurePolicy"]["rules"][1]
    assert rule["onExitCodes"]["containerName"] == training["name"]


def test_a_pod_of_the_workflow_fits_the_schema_of_kubernetes() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    containers = [{"name": name, **each["container"]} for name, each in TEMPLATES.items() if "container" in each]
    spec = {"containers": containers, "volumes": WORKFLOW["spec"]["volumes"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "steps"}, "spec": spec}
    validator.validate(pod, "1.31", strict=True)


def test_the_steps_of_the_workflow_have_templates_parameters_and_options() -> None:
    steps = [step["template"] for group in TEMPLATES[WORKFLOW["spec"]["entrypoint"]]["steps"] for step in group]
    assert steps == list(TEMPLATES)[1:]
    given = {parameter["name"] for parameter in WORKFLOW["spec"]["arguments"]["parameters"]}
    for name in steps:
        command = TEMPLATES[name]["container"]["command"]
        assert command[0] == "gpupipe"
        check_options(command[1:])
        assert set(re.findall(r"workflow\.parameters\.(\w+)", " ".join(command))) <= given


def test_errors_are_not_repeated() -> None:
    """No scheduler repeats what ends with an exit code of gpupipe's errors."""
    values = MANIFESTS[0]["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"]
    (node,) = [each for each in ast.parse(FLOW.read_text()).body if isinstance(each, ast.Assign)]
    of_flow = list(eval(compile(ast.Expression(node.value), FLOW, "eval")))
    assert set(values) == set(of_flow) == ERROR_CODES
    (limit,) = re.findall(r"exitCode\) > (\d+)", TEMPLATES["train"]["retryStrategy"]["expression"])
    assert int(limit) == max(ERROR_CODES)
    page = (RECIPES / "index.md").read_text()
    rows = {int(code): row for code, row in re.findall(r"^\| (\d) (\|.*)$", page, re.MULTILINE)}
    assert {code for code, row in rows.items() if "| no" in row} == ERROR_CODES


def calls_of_flow() -> Iterator[list[str]]:
    """Yield the arguments of each call of ``gpupipe`` in the flow, with the names of variables as their values."""
    for node in ast.walk(ast.parse(FLOW.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "gpupipe":
            yield [str(arg.value) if isinstance(arg, ast.Constant) else ast.unparse(arg) for arg in node.args]


def test_the_commands_of_the_flow_have_these_options() -> None:
    calls = list(calls_of_flow())
    assert [call[0] for call in calls] == ["check", "run", "predict"]
    for call in calls:
        check_options(call)


@pytest.mark.process
@pytest.mark.slow
def test_a_command_of_the_flow_fails_with_its_exit_code(tmp_path: Path) -> None:
    """The helper runs by itself: Prefect is not a dependency of the tests."""
    tree = ast.parse(FLOW.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") == "gpupipe"]
    namespace: dict[str, Any] = {"subprocess": subprocess, "sys": sys}
    exec(compile(tree, FLOW, "exec"), namespace)
    with pytest.raises(subprocess.CalledProcessError) as error:
        namespace["gpupipe"]("check", str(tmp_path / "missing.yaml"))
    assert error.value.returncode == errors.ConfigError.exit_code


def test_the_conda_environment_has_the_ranges_of_the_extra() -> None:
    listed = yaml.safe_load((RECIPES / "environment.yml").read_text())
    *packages, pip = listed["dependencies"]
    assert listed["channels"] == ["rapidsai", "conda-forge"] and pip == {"pip": ["gpupipe"]}
    found = {}
    for text in packages:
        name, specifier = re.fullmatch(r"([\w-]+)(.*)", text).groups()  # type: ignore[union-attr]
        found[name] = specifier
    python, cuda = found.pop("python"), found.pop("cuda-version")
    assert cuda == "=13.*" and found.pop("pip") == ""
    expected = {}
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cuda13"]]:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or marker.evaluate({"python_version": python[1:], "sys_platform": "linux"}):
            expected[re.sub(r"-(cu13|cuda13x)$", "", requirement.name)] = requirement.specifier
    assert {name: Requirement(f"x{specifier}").specifier for name, specifier in found.items()} == expected
