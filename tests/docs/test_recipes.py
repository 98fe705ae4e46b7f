"""The files of the recipes: valid, with commands that gpupipe has, and with the versions of pyproject.toml."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
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
DAG = RECIPES / "airflow_dag.py"
CLOUD = RECIPES / "cloud.md"
SCRIPT = RECIPES / "gpu_machine.sh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ERROR_CODES = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"].get("template", {}).get("spec", {})


def test_each_file_is_in_a_page_and_each_page_in_the_index() -> None:
    pages = {path.stem: path.read_text() for path in RECIPES.glob("*.md")}
    shown = {name for text in pages.values() for name in re.findall(r"\{literalinclude\} (\S+)", text)}
    assert shown == {path.name for path in RECIPES.iterdir() if path.suffix in (".yaml", ".yml", ".py", ".sh")}
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


def errors_of(path: Path) -> range:
    """Return the constant ``ERRORS`` of a flow, which cannot be imported without its scheduler."""
    assignments = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    (value,) = [node.value for node in assignments if ast.unparse(node.targets[0]) == "ERRORS"]
    return eval(compile(ast.Expression(value), path, "eval"))


def test_errors_are_not_repeated() -> None:
    """No scheduler repeats what ends with an exit code of gpupipe's errors."""
    values = MANIFESTS[0]["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"]
    assert set(values) == set(errors_of(FLOW)) == set(errors_of(DAG)) == ERROR_CODES
    (limit,) = re.findall(r"exitCode\) > (\d+)", TEMPLATES["train"]["retryStrategy"]["expression"])
    assert int(limit) == max(ERROR_CODES)
    page = (RECIPES / "index.md").read_text()
    rows = {int(code): row for code, row in re.findall(r"^\| (\d) (\|.*)$", page, re.MULTILINE)}
    assert {code for code, row in rows.items() if "| no" in row} == ERROR_CODES


def calls_of_flow(path: Path) -> Iterator[list[str]]:
    """Yield the arguments of each call of ``gpupipe`` in a flow, with the names of variables as their values."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "gpupipe":
            yield [str(arg.value) if isinstance(arg, ast.Constant) else ast.unparse(arg) for arg in node.args]


@pytest.mark.parametrize("path", [FLOW, DAG], ids=lambda path: path.stem)
def test_the_commands_of_a_flow_have_these_options(path: Path) -> None:
    calls = [call[call[0] == "folder" :] for call in calls_of_flow(path)]
    assert {call[0] for call in calls} == {"check", "run", "predict", "update", "promote"}
    for call in calls:
        check_options(call)


def helper_of(path: Path, **names: Any) -> Callable[..., None]:
    """Return the function ``gpupipe`` of a flow: the tests run without Prefect and Airflow."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") == "gpupipe"]
    namespace: dict[str, Any] = {"subprocess": subprocess, "sys": sys, **names}
    exec(compile(tree, path, "exec"), namespace)
    return namespace["gpupipe"]


@pytest.mark.process
@pytest.mark.slow
def test_a_command_of_the_flow_fails_with_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        helper_of(FLOW)("check", str(tmp_path / "missing.yaml"))
    assert error.value.returncode == errors.ConfigError.exit_code


@pytest.mark.process
@pytest.mark.slow
def test_a_task_of_airflow_repeats_signals_and_no_errors(tmp_path: Path) -> None:
    class AirflowFailException(Exception):
        """A failure that Airflow does not retry; it retries every other exception."""

    names = {"ERRORS": errors_of(DAG), "AirflowFailException": AirflowFailException}
    with pytest.raises(AirflowFailException):
        helper_of(DAG, PYTHON=sys.executable, **names)(str(tmp_path), "check", "missing.yaml")
    for ending in ("exit 143", "kill -KILL $$"):
        write_program(tmp_path / "python", ending)
        with pytest.raises(subprocess.CalledProcessError):
            helper_of(DAG, PYTHON=str(tmp_path / "python"), **names)(str(tmp_path), "run", "churn.yaml")


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.process
def test_the_script_is_shell_and_has_an_extra_of_gpupipe() -> None:
    text = SCRIPT.read_text()
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    extras = re.findall(r"`(cuda\w+)`", CLOUD.read_text()) + re.findall(r"extra=\$\{1:-(\w+)\}", text)
    assert len(extras) == 3 and set(extras) <= set(PROJECT["optional-dependencies"])


@pytest.mark.process
@pytest.mark.parametrize("cloud", ["AWS", "Google Cloud", "Azure"])
def test_the_commands_of_a_cloud_are_shell_and_fit_the_script(cloud: str) -> None:
    (section,) = [text for text in CLOUD.read_text().split("\n## ") if text.startswith(f"{cloud}\n")]
    create, delete = (
        re.sub(r"^\$ ", "", text, flags=re.M) for text in re.findall(r"```console\n(.*?)```", section, re.S)
    )
    subprocess.run(["bash", "-n"], input=create + delete, text=True, check=True)
    assert set(re.findall(r"\$(\w+)", create + delete)) <= set(re.findall(r"^(\w+)=", create, re.M))
    (copied,) = re.findall(r"scp .*?gpupipe\.tar\.gz (\S+)", create)
    assert ROOT / copied == SCRIPT
    (extra,) = re.findall(r"bash gpu_machine\.sh (\w+)", create)
    assert extra in PROJECT["optional-dependencies"]


@pytest.mark.process
def test_the_script_for_a_cloud_machine_installs_the_archive_and_trains(tmp_path: Path) -> None:
    """Run it with fake sudo, pip and gpupipe, which log their folder and arguments."""
    log = tmp_path / "log"
    write_program(tmp_path / "programs" / "logger", f'echo "$PWD $(basename "$0") $*" >> {log}')
    write_program(tmp_path / "bin" / "sudo", "exit 0")
    link = " && ".join(f"ln -s {tmp_path}/programs/logger $3/bin/{name}" for name in ("pip", "gpupipe"))
    write_program(tmp_path / "bin" / "python3", f"mkdir -p $3/bin && {link}")
    (prefix,) = re.findall(r"git archive --prefix (\S+/) --output gpupipe\.tar\.gz HEAD", CLOUD.read_text())
    with tarfile.open(tmp_path / "gpupipe.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "gpupipe/__init__.py", "configs/churn.yaml"):
            archive.add(ROOT / name, prefix + name)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["bash", SCRIPT, "cuda12"], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "gpupipe" / "gpupipe" / "__init__.py").exists()
    install, doctor, run = [shlex.split(line) for line in log.read_text().splitlines()]
    assert install == [str(tmp_path), "pip", "install", "./gpupipe[cuda12]"]
    assert doctor == [str(tmp_path), "gpupipe", "doctor"]
    assert run[:4] == [str(tmp_path / "gpupipe"), "gpupipe", "run", "configs/churn.yaml"]
    check_options(run[2:])


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
