"""Rules for container images in addition to those of hadolint, which runs in CI."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
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
# of the compose specification, those in use
SERVICE_KEYS = {
    "image",
    "build",
    "user",
    "volumes",
    "command",
    "deploy",
    "profiles",
    "entrypoint",
    "depends_on",
    "environment",
    "ports",
    "read_only",
    "tmpfs",
    "cap_drop",
    "security_opt",
    "stop_grace_period",
}
BUILT = {service["image"]: name for name, service in COMPOSE["services"].items() if "build" in service}
KUBERNETES: list[dict[str, Any]] = list(yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text()))
PAGE = (ROOT / "docs" / "guide" / "clusters.md").read_text()


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: name and arguments, in their order."""
    lines = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    whole = re.sub(r"\\\n\s*", " ", lines).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole if line)]


def arguments_of(file: Path, name: str) -> list[str]:
    return [rest for instruction, rest in instructions(file) if instruction == name]


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: VERSIONS[found[1]], text)


def test_there_is_an_image_for_each_processor_and_one_for_serving() -> None:
    assert [file.name for file in FILES] == ["cpu.Dockerfile", "gpu.Dockerfile", "serve.Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_base_has_a_version(file: Path) -> None:
    (base,) = arguments_of(file, "FROM")
    _, _, tag = filled(base).partition(":")
    assert re.match(r"\d+\.\d+", tag), base
    assert "latest" not in tag


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_versions_are_in_one_place(file: Path) -> None:
    declared = arguments_of(file, "ARG")
    assert set(declared) <= set(VERSIONS)  # no ARG has another default
    written = [rest for name, rest in instructions(file) if name in ("FROM", "RUN", "ENV")]
    assert [rest for rest in written if re.search(r"\d+\.\d+", rest)] == []


@pytest.mark.parametrize("service", BUILT.values())
def test_compose_passes_on_every_version_that_an_image_asks_for(service: str) -> None:
    build = COMPOSE["services"][service]["build"]
    file = (DOCKER / build["context"] / build["dockerfile"]).resolve()
    assert file in FILES
    assert set(build["args"]) == set(arguments_of(file, "ARG"))
    assert all(value.startswith(f"${{{name}:?") for name, value in build["args"].items())


def test_every_version_is_used() -> None:
    assert {name for file in FILES for name in arguments_of(file, "ARG")} == set(VERSIONS)


def test_compose_has_only_valid_keys() -> None:
    assert set(COMPOSE) == {"name", "services", "volumes"}
    for service in COMPOSE["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert set(service.get("build", {})) <= {"context", "dockerfile", "args"}
        named = [volume.split(":")[0] for volume in service.get("volumes", ()) if re.match(r"\w", volume)]
        assert set(named) <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])


@pytest.mark.parametrize("service", ["gpu", "gpu-worker"])
def test_compose_reserves_gpus_for_the_services_that_compute_on_them(service: str) -> None:
    (device,) = COMPOSE["services"][service]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_image_runs_as_an_unprivileged_user(file: Path) -> None:
    users = arguments_of(file, "USER")
    assert users and int(users[-1]) >= 1000
    assert f"--uid {users[-1]} " in " ".join(arguments_of(file, "RUN"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_signal_reaches_gpupipe(file: Path) -> None:
    """The exec form: no shell stands between docker and the process."""
    assert [json.loads(rest) for rest in arguments_of(file, "ENTRYPOINT")] == [["gpupipe"]]
    assert all(json.loads(rest) for rest in arguments_of(file, "CMD"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_package_managers_download_and_their_caches_are_removed(file: Path) -> None:
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
def test_every_copied_file_exists_and_is_not_ignored(file: Path) -> None:
    allowed = {line[1:] for line in Path(f"{file}.dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for rest in arguments_of(file, "COPY") for source in rest.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("extras", [["cpu", "cluster"], [VERSIONS["CUDA_EXTRA"]]])
def test_the_requirements_of_an_image_match_the_package(extras: list[str]) -> None:
    command = [sys.executable, str(DOCKER / "requirements.py"), str(ROOT / "pyproject.toml"), *extras]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_extras = [line for extra in extras for line in project["optional-dependencies"][extra]]
    assert {*project["dependencies"], *of_extras} < set(printed)
    assert not any(line.startswith("gpupipe") for line in printed)  # what is not on an index


# Serving: few packages, a mounted model that nothing writes to, and no rights that a server does not need.

SERVE = DOCKER / "serve.Dockerfile"
LOCKS = ["serve", "serve-networks"]


@pytest.mark.parametrize("name", LOCKS)
def test_the_packages_for_serving_have_the_bounds_of_the_project_and_the_tested_versions(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    }
    asked = {line for line in lines_of(f"{name}.in") if not line.startswith("-r ")}
    assert asked <= bounds
    assert {*project["optional-dependencies"]["serve"]} <= {*lines_of("serve.in")}
    tested = {line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")}
    pinned = lines_of(f"{name}-requirements.txt")
    assert {re.split("[=<>;]", line)[0] for line in asked} <= {line.split("==")[0] for line in pinned}
    names = {line.split("==")[0] for line in tested}
    assert [line for line in pinned if line.split("==")[0] in names and line not in tested] == []


def lines_of(name: str) -> list[str]:
    return [line for line in (DOCKER / name).read_text().splitlines() if line and not line.startswith("#")]


def test_the_image_for_serving_has_no_library_of_training() -> None:
    pinned = {line.split("==")[0] for name in LOCKS for line in lines_of(f"{name}-requirements.txt")}
    large = {"llvmlite", "matplotlib", "numba", "pandas", "pyarrow", "scikit-learn", "scipy", "torch", "xgboost-cpu"}
    assert pinned.isdisjoint(large)
    assert any("--no-deps /src" in run for run in arguments_of(SERVE, "RUN"))
    assert f"{VERSIONS['SERVE_LIBRARIES']}-requirements.txt" in " ".join(arguments_of(SERVE, "COPY"))


def test_the_server_of_the_image_has_valid_options_and_a_health_check_of_its_port() -> None:
    command, *options = json.loads(arguments_of(SERVE, "CMD")[0])
    assert command == "serve" and {word for word in options if word.startswith("--")} <= options_of("gpupipe", "serve")
    port = options[options.index("--port") + 1]
    assert arguments_of(SERVE, "EXPOSE") == [port]
    (check,) = arguments_of(SERVE, "HEALTHCHECK")
    python = json.loads(check.partition("CMD ")[2])
    assert f"'127.0.0.1', {port}," in python[-1] and "/v2/health/ready" in python[-1]
    ast.parse(python[-1])


def test_the_service_mounts_a_model_that_it_cannot_write_to() -> None:
    service, (_, folder, *_) = COMPOSE["services"]["serve"], json.loads(arguments_of(SERVE, "CMD")[0])
    assert [volume.rpartition("}:")[2] for volume in service["volumes"]] == [f"{folder}:ro"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    port = arguments_of(SERVE, "EXPOSE")[0]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]  # not all interfaces of the host


def test_the_cuda_version_of_the_image_matches_its_extra() -> None:
    assert VERSIONS["CUDA_EXTRA"] == f"cuda{VERSIONS['CUDA_VERSION'].partition('.')[0]}"


# Clusters: commands of Dask and gpupipe with valid options and existing files.


def commands_of_clusters() -> dict[str, list[str]]:
    """Return the commands of compose and of Kubernetes, by where they stand."""
    of_compose = {f"compose {name}": s["entrypoint"] for name, s in COMPOSE["services"].items() if "entrypoint" in s}
    containers = [container for document in KUBERNETES for container in containers_of(document)]
    return of_compose | {f"kubernetes {container['name']}": container["command"] for container in containers}


def containers_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document["spec"].get("template", {}).get("spec", {}).get("containers", [])


@cache
def options_of(*command: str) -> set[str]:
    """Return the options that a command says it has."""
    shown = subprocess.run(
        [sys.executable, "-m", *command, "--help"], capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"--[a-z-]+", shown))


@pytest.mark.parametrize("command", commands_of_clusters().values(), ids=commands_of_clusters().keys())
def test_a_command_of_a_cluster_has_the_options_it_is_given(command: list[str]) -> None:
    program, subcommand = ("dask", "worker") if command[:3] == ["dask", "cuda", "worker"] else command[:2]
    assert {word for word in command if word.startswith("--")} <= options_of(program, subcommand)


@pytest.mark.parametrize("address", re.findall(r"tcp://([\w-]+):8786", (DOCKER / "compose.yaml").read_text() + PAGE))
def test_the_scheduler_that_a_command_of_compose_names_is_a_service(address: str) -> None:
    assert address == "host" or address in COMPOSE["services"]


@pytest.mark.parametrize("name", [n for n, s in COMPOSE["services"].items() if "build" not in s])
def test_a_cluster_service_uses_a_built_image_and_starts_only_on_request(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["image"] in BUILT
    assert service["profiles"] == ["gpu-cluster" if name.startswith("gpu-") else "cluster"]


def test_the_manifests_fit_together() -> None:
    service, *rest = KUBERNETES
    assert [document["kind"] for document in KUBERNETES] == ["Service", "Deployment", "Deployment", "Job"]
    for deployment in rest[:2]:
        wanted = deployment["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"] == rest[0]["spec"]["selector"]["matchLabels"]
    assert {container["image"] for document in rest for container in containers_of(document)} == {"gpupipe:cpu"}
    named = {
        word for command in commands_of_clusters().values() for word in command if word.startswith("tcp://gpupipe")
    }
    assert named == {f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"}


def test_the_page_names_existing_files_and_settings() -> None:
    named = set(re.findall(r"docker/[\w.]+\w", PAGE))
    assert {"docker/slurm.sbatch", "docker/kubernetes.yaml", "docker/compose.yaml"} <= named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_batch_job_starts_a_scheduler_and_workers_runs_on_them_and_leaves_nothing(tmp_path: Path) -> None:
    """Replacements of ``srun``, ``dask`` and ``gpupipe`` that record their arguments."""
    tools = {
        "srun": 'echo "$@" > workers.txt',
        "dask": 'echo "$@" > scheduler.txt; echo "{}" > "${@: -1}"',
        "gpupipe": 'while [ ! -s workers.txt ]; do sleep 0.1; done; echo "$@" > run.txt',
    }
    (tmp_path / "bin").mkdir()
    for name, text in tools.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    slurm = {"SLURM_MEM_PER_CPU": "500", "SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "4"}
    done = subprocess.run(
        ["bash", str(DOCKER / "slurm.sbatch"), "c.yaml", "--output", "out"], cwd=tmp_path, capture_output=True,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **slurm}, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    scheduler, workers, run = ((tmp_path / f"{name}.txt").read_text() for name in ("scheduler", "workers", "run"))
    file = scheduler.split()[-1]
    assert set(re.findall(r"--[a-z-]+", scheduler)) <= options_of("dask", "scheduler")
    of_srun, of_dask = workers.split("dask worker")
    assert of_srun.split() == ["--cpus-per-task", "4"]
    assert set(re.findall(r"--[a-z-]+", of_dask)) <= options_of("dask", "worker")
    assert f"--scheduler-file {file} --nthreads 4 --memory-limit 1800MiB" in of_dask
    assert run.split()[:4] == ["run", "c.yaml", "--cluster", file]
    assert run.endswith("--set cluster.workers=8 --set cluster.deadline=300 --output out\n")
    assert not Path(file).parent.exists()
