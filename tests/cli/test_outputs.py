"""Outputs that would overwrite inputs: every command refuses them and leaves all files unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from gpupipe.artifact import ArtifactReader
from gpupipe.cli import COMMANDS, main
from gpupipe.files.policy import CAN_REPLACE, MODE
from gpupipe.inference.scoring.bad_rows import REJECTED
from tests.cli.test_faults import files_of_at_most

CONFIG = """\
source: {path: t.csv, target: y, id: id}
models: [gaussian_nb]
evaluate: {importance: false}
report: {enabled: false}
"""
HOOK = "def same(frame):\n    return frame\n"
ESTIMATOR = "from sklearn.dummy import DummyClassifier\n\n\ndef make():\n    return DummyClassifier()\n"
KERNEL = 'import gpupipe\n\n\n@gpupipe.kernel(out="float32", nulls="propagate")\ndef half(age):\n    return age / 2.0\n'
JOIN = "{x: {path: %s, on: plan, cardinality: many_to_one}}"

WRITING = ("run", "update", "predict", "explain", "export", "init", "bench", "drift", "evaluate", "dossier")
# The document of a table:
PRINTING = ("runs", "compare", "diff", "history", "verify", "reproduce", "plan", "gpus", "doctor", "kernels", "schema")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of every kind, and a run in `r`."""
    folder = tmp_path_factory.mktemp("outputs")
    rows = [f"{i:03d},{i % 50},{'ab'[i % 2]},{'yes' if i % 50 > 25 else 'no'}" for i in range(120)]
    table = "\n".join(["id,age,plan,y", *rows, ""])
    (folder / "t.csv").write_text(table)
    (folder / "c.yaml").write_text(CONFIG)
    (folder / "x.csv").write_text("plan,price\na,1\nb,2\n")
    (folder / "scores.rejected.csv").write_text(table)
    (folder / "hook.py").write_text(HOOK)
    (folder / "code.py").write_text(ESTIMATOR)
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "peer.py").write_text("")
    (folder / "scheduler.json").write_text("{}")
    for name in ("parts/year=1", "cache", "empty"):
        (folder / name).mkdir(parents=True)
    (folder / "parts/year=1/one.csv").write_text(table)
    (folder / "cache/entry").write_text("precious")
    (folder / "notes.yaml").write_text("shopping: [milk, bread]\n")
    (folder / "prose.yaml").write_text("precious: [\n")
    (folder / "symbolic.csv").symlink_to("t.csv")
    (folder / "folder").symlink_to("parts")
    (folder / "hard.csv").hardlink_to(folder / "t.csv")
    (folder / "hard.yaml").hardlink_to(folder / "c.yaml")
    assert main(["run", str(folder / "c.yaml"), "--output", str(folder / "r"), "--quiet"]) == 0
    return folder


@pytest.fixture
def there(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, which must not change."""
    monkeypatch.chdir(workplace)
    before = contents(workplace)
    yield workplace
    assert contents(workplace) == before


def contents(folder: Path) -> dict[str, str]:
    """Return what is below a folder: links by their target, files by their hash."""
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}" if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file()
        else "folder"
        for path in folder.rglob("*")
    }  # fmt: skip


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands, with those below `kernels`."""
    for name in COMMANDS:
        command: click.Command = import_module(f"gpupipe.cli.{name}").command
        yield name, command
        below = command.commands if isinstance(command, click.Group) else {}
        yield from ((f"{name} {each}", inner) for each, inner in below.items())


def test_the_output_of_every_command_is_o_and_output() -> None:
    found = set()
    for name, command in commands():
        names = [{*option.opts} for option in command.params if {"-o", "--output"} & {*option.opts}]
        assert len(names) < 2 and all({"-o", "--output"} <= each for each in names), name
        found |= {name for _ in names}
    assert found == {*WRITING, *PRINTING}
    silent = {name for name, _ in commands()} - found  # no result but lines for people, and the model server
    assert silent == {"check", "open", "serve", "sign", "promote", "rollback", "kernels test", "kernels warm"}


# Outputs that may contain personal data, with --mode:
PRIVATE = ("run", "predict", "explain", "export", "drift", "diff", "evaluate", "dossier")
CALLS: dict[str, list[str]] = {
    "predict": ["r", "t.csv"], "explain": ["r", "t.csv"], "export": ["r", "--format", "onnx"], "drift": ["r", "t.csv"],
    "init": ["t.csv", "--target", "y"], "bench": ["c.yaml"], "runs": ["."], "compare": ["r", "{here}/r"],
    "diff": ["r", "r", "t.csv"], "history": ["r"], "verify": ["r"], "reproduce": ["r"], "plan": ["c.yaml"], "gpus": [],
    "doctor": [], "kernels": [], "schema": [], "evaluate": ["r", "t.csv"],
}  # fmt: skip


def test_every_command_that_writes_a_file_has_force_and_private_ones_have_mode() -> None:
    options = {name: {word for option in command.params for word in option.opts} for name, command in commands()}
    files = {*WRITING, *PRINTING} - {"run", "update", "dossier"}  # these write a directory, which must be new
    assert {name for name in options if "--force" in options[name]} == files | {"promote", "sign"}
    assert {name for name in options if "--mode" in options[name]} == {*PRIVATE, "promote"}
    assert set(CALLS) == files


@pytest.mark.parametrize("command", CALLS)
def test_an_existing_file_or_link_is_not_replaced_and_no_work_is_done(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(ArtifactReader, "__init__", lambda *args, **options: pytest.fail("the model was opened"))
    suffix = ".yaml" if command == "init" else ".csv"
    victim, link, dangling = (tmp_path / f"{name}{suffix}" for name in ("victim", "link", "dangling"))
    victim.write_text(CONFIG)
    link.symlink_to(victim)
    dangling.symlink_to(tmp_path / "absent")
    call = [command, *(word.format(here=there) for word in CALLS[command])]
    for output, options, says in [
        (victim, [], "add --force to replace it"),
        (link, [], "already exists: it is a symbolic link"),
        (link, ["--force"], "already exists: it is a symbolic link"),
        (dangling, ["--force"], "already exists: it is a symbolic link"),
    ]:
        assert main([*call, "-o", str(output), *options]) == 2
        shown = capsys.readouterr()
        assert f"{output} already exists" in shown.err and says in shown.err and not shown.out
        assert CAN_REPLACE.get()  # Python in the same process is not affected
    assert victim.read_text() == CONFIG and len([*tmp_path.iterdir()]) == 3


def test_a_default_output_is_not_replaced_either(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "t.yaml").write_text(CONFIG)
    try:
        assert main(["init", "t.csv", "--target", "y"]) == 2
        assert "t.yaml already exists" in capsys.readouterr().err and (there / "t.yaml").read_text() == CONFIG
    finally:
        (there / "t.yaml").unlink()


def test_rejected_rows_of_an_earlier_scoring_are_not_replaced_either(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["predict", "r", "t.csv", "--on-error", "reject", "--quiet", "-o", str(tmp_path / "s.csv")]
    (tmp_path / "s.rejected.csv").write_text(",".join(REJECTED) + "\n")
    assert main(call) == 2
    assert "s.rejected.csv already exists" in capsys.readouterr().err and not (tmp_path / "s.csv").exists()
    assert main([*call, "--force"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_modes_of_outputs(there: Path, tmp_path: Path, mask: int) -> None:
    calls = {"predict": "s.csv", "explain": "e.parquet", "drift": "d.html", "diff": "d.json", "schema": "schema.json"}
    before = os.umask(mask)
    try:
        for mode, options in [(0o600, []), (0o640, ["--mode", "640"]), (0o644, ["--mode", "0644"])]:
            for command, name in calls.items() if mode == 0o600 else [("predict", "s.csv"), ("drift", "d.html")]:
                output = tmp_path / name
                assert main([command, *CALLS[command], "-o", str(output), "--force", *options]) == 0
                expected = 0o666 & ~mask if command == "schema" else mode
                assert stat.S_IMODE(output.stat().st_mode) == expected, command
            folder = tmp_path / f"exported-{mode}"
            assert main(["export", "r", "-o", str(folder), *options]) == 0
            of_folder = {0o600: 0o700, 0o640: 0o750, 0o644: 0o755}[mode]
            assert stat.S_IMODE(folder.stat().st_mode) == of_folder
            assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {mode}
    finally:
        os.umask(before)
    assert (MODE.get(), CAN_REPLACE.get()) == (0o600, True)


def test_the_mode_of_a_run_is_that_of_the_option_or_of_the_configuration(there: Path, tmp_path: Path) -> None:
    found = {stat.S_IMODE(path.stat().st_mode) for path in (there / "r").rglob("*") if path.is_file()}
    assert found == {0o600} and stat.S_IMODE((there / "r/model").stat().st_mode) == 0o700
    for name, options in {"a": ["--set", "output_mode=0640"], "b": ["--mode", "640"]}.items():
        assert main(["run", "c.yaml", *options, "--output", str(tmp_path / name), "--quiet"]) == 0
        of_file, of_folder = (stat.S_IMODE((tmp_path / name / each).stat().st_mode) for each in ("log.jsonl", "model"))
        assert (of_file, of_folder) == (0o640, 0o750)
        assert "output_mode: 640\n" in (tmp_path / name / "config.yaml").read_text()


@pytest.mark.parametrize("mode", ["700", "777", "64", "060", "-1", "601", "0o640", "u+r"])
def test_another_mode_is_refused(there: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    for command in PRIVATE:
        call = [command, *CALLS.get(command, ["c.yaml"])]
        assert main([*call, "-o", "new.csv", f"--mode={mode}"]) == 2
        shown = capsys.readouterr().err
        assert "600, 640, 644, 660, 664" in shown or "not a valid integer" in shown


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["plan", "c.yaml"], "t.csv"),
        (["gpus", "c.yaml"], "c.yaml"),
        (["verify", "r"], "r/model/manifest.json"),
        (["drift", "r", "t.csv"], "t.csv"),
        (["compare", "r", "{here}/r"], "r/metrics.json"),
        (["diff", "r", "r", "t.csv"], "t.csv"),
        (["diff", "r", "r", "t.csv", "--html", "d.html"], "r/metrics.json"),
    ],
)
def test_a_printed_document_overwrites_nothing_that_was_read(there: Path, args: list[str], output: str) -> None:
    assert main([each.format(here=there) for each in args] + ["-o", output, "--force"]) == 2


def test_a_printed_document_is_written_too(there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["plan", "c.yaml"], ["gpus", "--gpu", "l4"], ["verify", "r"], ["schema"], ["kernels"]):
        file = tmp_path / f"{command[0]}.json"
        assert main([*command, "-o", str(file)]) == 0
        document, shown = json.loads(file.read_text()), capsys.readouterr().out
        assert document and bool(shown) == (command != ["schema"]) and not shown.startswith("{")
    assert main(["plan", "c.yaml", "-o", "absent/plan.json"]) == 2


SCORING = [
    # what is scored, further options, outputs that must be refused
    ("t.csv", [], ["t.csv", "empty/../t.csv", "{here}/t.csv", "symbolic.csv", "hard.csv"]),
    ("symbolic.csv", [], ["t.csv"]),
    ("{here}/t.csv", [], ["t.csv"]),
    ("file://{here}/t.csv", [], ["t.csv"]),
    ("t.csv", [], ["r/new.csv", "r/predictions.parquet", "r/model/new.csv"]),
    ("t.csv", ["--table", "events=x.csv"], ["x.csv"]),
    ("parts", [], ["parts/year=1/one.csv", "parts/new.csv", "folder/new.parquet"]),
    ("folder", [], ["parts/new.csv"]),
    ("parts/*/*.csv", [], ["parts/year=1/one.csv", "parts/year=1/new.csv"]),
    ("parts/**/*.csv", [], ["parts/new.csv"]),
    ("scores.rejected.csv", ["--on-error", "null"], ["scores.csv"]),
    ("parts", ["--cluster", "local"], ["parts/new"]),
    ("t.csv", ["--cluster", "local"], ["r/new", "r/model/new"]),
]


@pytest.mark.parametrize(
    ("data", "options", "output"), [(data, options, output) for data, options, all_ in SCORING for output in all_]
)
@pytest.mark.parametrize("model", ["r", "r/model"])
def test_predict_overwrites_nothing_that_it_reads(
    there: Path, capsys: pytest.CaptureFixture[str], model: str, data: str, options: list[str], output: str
) -> None:
    data, output = data.format(here=there), output.format(here=there)
    assert main(["predict", model, data, *options, "-o", output]) == 2
    assert "Usage error: the output would" in capsys.readouterr().err


@pytest.mark.parametrize(("data", "options", "outputs"), SCORING[:7])
def test_explain_overwrites_nothing_that_it_reads(
    there: Path, capsys: pytest.CaptureFixture[str], data: str, options: list[str], outputs: list[str]
) -> None:
    for output in outputs:
        assert main(["explain", "r", data.format(here=there), *options, "-o", output.format(here=there)]) == 2
        assert "Usage error: the output would" in capsys.readouterr().err


OPTIONS_OF_A_RUN = {
    "t.csv": ["source.path=old/t.csv"],
    "x.csv": [f"tables={JOIN % 'old/x.csv'}"],
    "hook.py": ["source.prepare=old/hook.py:same"],
    "code.py": ["models=[estimator: {use: 'old/code.py:make'}]"],
    "kernel.py": ["features=[kernel: {use: 'old/kernel.py:half', inputs: [age]}]"],
    "cache": ["source.cache=old/cache"],
    "scheduler.json": ["cluster.scheduler=old/scheduler.json"],
    "parts": ["source.path=old/parts"],
    "parts/": ["source.path='old/parts/**/*.csv'"],
}


@pytest.mark.parametrize("name", ["c.yaml", *OPTIONS_OF_A_RUN])
def test_a_run_does_not_replace_a_directory_with_its_inputs(
    there: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shutil.copytree("r", "old")
    try:
        (shutil.copytree if Path(name).is_dir() else shutil.copy)(name, Path("old", name))
        before = contents(Path("old"))
        config = "old/c.yaml" if name == "c.yaml" else "c.yaml"
        options = [word for option in OPTIONS_OF_A_RUN.get(name, []) for word in ("--set", option)]
        if name == "c.yaml":
            options = ["--set", f"source.path={there}/t.csv"]
        assert main(["run", config, *options, "--output", "old", "--quiet"]) == 2
        assert "Configuration error: the output folder would replace" in capsys.readouterr().err
        assert contents(Path("old")) == before
    finally:
        shutil.rmtree("old")


@pytest.mark.parametrize(
    ("path", "output"),
    [("parts", "parts/r"), ("folder", "parts/r"), ("'**/*.parquet'", "new"), (".", "new"), ("parts", "parts/year=1/r")],
)
def test_a_run_is_not_written_into_the_folder_that_it_reads(
    there: Path, capsys: pytest.CaptureFixture[str], path: str, output: str
) -> None:
    assert main(["run", "c.yaml", "--set", f"source.path={path}", "--output", output, "--quiet"]) == 2
    assert "would be read as part of the input" in capsys.readouterr().err
    assert main(["run", "c.yaml", "--set", f"source.path={path}", "--set", f"output={output}", "--quiet"]) == 2


@pytest.mark.parametrize("model", ["r", "r/model"])
@pytest.mark.parametrize("output", ["r/copy", "r/model/copy"])
def test_a_model_is_not_exported_into_itself(
    there: Path, capsys: pytest.CaptureFixture[str], model: str, output: str
) -> None:
    assert main(["export", model, "-o", output]) == 2
    assert "the output would be inside" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "output", "says"),
    [
        ("t.csv", "t.csv", "would overwrite the input"),
        ("t.csv", "symbolic.csv", "would overwrite the input"),
        ("t.csv", "hard.csv", "would overwrite the input"),
        ("parts", "folder/year=1/one.csv", "would overwrite a file of the input"),
        ("parts/*/*", "parts/year=1/new.yaml", "would be read as part of the input"),
        ("t.csv", "x.csv", "overwrites configurations only"),
        ("t.csv", "hook.py", "overwrites configurations only"),
        ("t.csv", "notes.yaml", "overwrites configurations only"),
        ("t.csv", "prose.yaml", "overwrites configurations only"),
        ("t.csv", "r/predictions.parquet", "overwrites configurations only"),
        ("t.csv", "/dev/null", "found a device or a pipe"),
        ("t.csv", "empty", "found a folder"),
    ],
)
def test_init_overwrites_configurations_only(
    there: Path, capsys: pytest.CaptureFixture[str], data: str, output: str, says: str
) -> None:
    assert main(["init", data, "--target", "y", "-o", output, "--force"]) == 2
    assert says in capsys.readouterr().err
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("output", ["c.yaml", "hard.yaml", "t.csv", "symbolic.csv", "x.csv", "peer.py"])
def test_bench_overwrites_nothing_that_it_reads(there: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["bench", "c.yaml", "--data", "x.csv", "--peer", "peer.py", "--json", output, "--force"]) == 2
    says = "it is a symbolic link" if output == "symbolic.csv" else "the output would overwrite"
    assert says in capsys.readouterr().err


def test_outputs_next_to_the_inputs_are_written(workplace: Path, tmp_path: Path) -> None:
    for name in ("t.csv", "parts"):
        (shutil.copytree if name == "parts" else shutil.copy)(workplace / name, tmp_path / name)
    model = str(workplace / "r")
    for data, output in [("t.csv", "s.csv"), ("*.csv", "s.parquet"), ("parts", "parts/_scores/s.csv")]:
        (tmp_path / output).parent.mkdir(exist_ok=True)
        assert main(["predict", model, str(tmp_path / data), "-o", str(tmp_path / output), "--quiet"]) == 0
        assert (tmp_path / output).is_file()
        if output == "s.csv":
            (tmp_path / output).unlink()
    assert main(["init", str(tmp_path / "parts"), "--target", "y", "-o", str(tmp_path / "parts/c.yaml")]) == 0


def test_a_configuration_is_replaced_atomically(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG)
    command = ["init", str(workplace / "t.csv"), "--target", "y", "-o", str(config), "--force"]
    with files_of_at_most(100):
        assert main(command) == 3
    assert "the disk is full" in capsys.readouterr().err
    assert config.read_text() == CONFIG
    assert main(command) == 0
    assert "t.csv" in config.read_text() != CONFIG
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
    with files_of_at_most(100):
        assert main([*command[:-2], str(tmp_path / "new.yaml")]) == 3
    assert not (tmp_path / "new.yaml").exists()
