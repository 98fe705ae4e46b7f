"""The rules for images that a linter of Dockerfiles does not know; hadolint, in CI, holds the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCKER = ROOT / "docker"
FILES = sorted(DOCKER.glob("*.Dockerfile"))
VERSIONS = dict(
    line.split("=", 1) for line in (DOCKER / "versions.env").read_text().splitlines() if not line.startswith("#")
)
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICE_KEYS = {"image", "build", "user", "volumes", "command", "deploy"}  # of the compose specification, those in use


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: name and arguments, in their order."""
    lines = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    whole = re.sub(r"\\\n\s*", " ", lines).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole if line)]


def arguments_of(file: Path, name: str) -> list[str]:
    return [rest for instruction, rest in instructions(file) if instruction == name]


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: VERSIONS[found[1]], text)


def test_there_is_an_image_for_each_processor() -> None:
    assert [file.name for file in FILES] == ["cpu.Dockerfile", "gpu.Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_base_has_a_version(file: Path) -> None:
    (base,) = arguments_of(file, "FROM")
    _, _, tag = filled(base).partition(":")
    assert re.match(r"\d+\.\d+", tag), base
    assert "latest" not in tag


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_versions_are_in_one_place(file: Path) -> None:
    declared = arguments_of(file, "ARG")
    assert set(declared) <= set(VERSIONS)  # no ARG has a default of its own
    written = [rest for name, rest in instructions(file) if name in ("FROM", "RUN", "ENV")]
    assert [rest for rest in written if re.search(r"\d+\.\d+", rest)] == []


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_compose_passes_on_every_version_that_an_image_asks_for(service: str) -> None:
    build = COMPOSE["services"][service]["build"]
    file = (DOCKER / build["context"] / build["dockerfile"]).resolve()
    assert file in FILES
    assert set(build["args"]) == set(arguments_of(file, "ARG"))
    assert all(value.startswith(f"${{{name}:?") for name, value in build["args"].items())


def test_every_version_is_used() -> None:
    assert {name for file in FILES for name in arguments_of(file, "ARG")} == set(VERSIONS)


def test_compose_has_only_keys_that_it_knows() -> None:
    assert set(COMPOSE) == {"name", "services", "volumes"}
    for service in COMPOSE["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert set(service["build"]) == {"context", "dockerfile", "args"}
        named = [volume.split(":")[0] for volume in service["volumes"] if re.match(r"\w", volume)]
        assert set(named) <= set(COMPOSE["volumes"])
    (device,) = COMPOSE["services"]["gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_image_runs_as_nobody_special(file: Path) -> None:
    users = arguments_of(file, "USER")
    assert users and int(users[-1]) >= 1000
    assert f"--uid {users[-1]} " in " ".join(arguments_of(file, "RUN"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_signal_reaches_gpupipe(file: Path) -> None:
    """The exec form: no shell stands between docker and the process."""
    assert [json.loads(rest) for rest in arguments_of(file, "ENTRYPOINT")] == [["gpupipe"]]
    assert all(json.loads(rest) for rest in arguments_of(file, "CMD"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_fetched_but_by_package_managers_and_nothing_of_them_is_left(file: Path) -> None:
    assert arguments_of(file, "ADD") == []
    runs = arguments_of(file, "RUN")
    assert [run for run in runs if re.search(r"\b(curl|wget|git)\b", run)] == []
    assert all("rm -rf /var/lib/apt/lists/*" in run for run in runs if "apt-get update" in run)
    assert all("--no-cache-dir" in part for run in runs for part in run.split("&&") if "pip install" in part)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_change_of_the_code_does_not_install_its_requirements_again(file: Path) -> None:
    order = [f"{name} {rest}" for name, rest in instructions(file)]
    required = next(i for i, line in enumerate(order) if "--requirement" in line)
    copied = next(i for i, line in enumerate(order) if line.startswith("COPY") and "gpupipe" in line)
    assert required < copied


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_all_that_is_copied_is_there_and_let_through(file: Path) -> None:
    allowed = {line[1:] for line in Path(f"{file}.dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for rest in arguments_of(file, "COPY") for source in rest.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("extra", ["cpu", VERSIONS["CUDA_EXTRA"]])
def test_the_requirements_of_an_image_are_those_of_the_package(extra: str) -> None:
    command = [sys.executable, str(DOCKER / "requirements.py"), str(ROOT / "pyproject.toml"), extra]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*project["dependencies"], *project["optional-dependencies"][extra]} < set(printed)
    assert not any(line.startswith("gpupipe") for line in printed)  # what is not on an index


def test_the_cuda_of_the_image_is_that_of_its_extra() -> None:
    assert VERSIONS["CUDA_EXTRA"] == f"cuda{VERSIONS['CUDA_VERSION'].partition('.')[0]}"
