"""``gpupipe init``, in real processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpupipe.backends.probe import missing_packages
from gpupipe.starter.choices import has_xgboost
from tests.nightly import nightly_unless

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the machine's GPU: starter configurations depend on it."""
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")


@pytest.fixture
def usable_gpu(no_gpu: None, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that reports a GPU of 16 GiB for CUDA 13."""
    for name in ("GPUPIPE_FORCE_CPU", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", driver)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table."""
    path = tmp_path / "sales.csv"
    rows = [f"{i},{i % 7},{'ab'[i % 2]},{'yes' if i % 3 else 'no'}" for i in range(60)]
    path.write_text("\n".join(["id,size,colour,sold", *rows]))
    return path


def test_init_writes_a_configuration_named_after_the_table(gpupipe: Gpupipe, table: Path) -> None:
    result = gpupipe("init", "sales.csv", "--target", "sold", cwd=table.parent)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "wrote sales.yaml; next: gpupipe run sales.yaml"
    assert gpupipe("check", "sales.yaml", cwd=table.parent).returncode == 0


def test_init_keeps_an_existing_file(gpupipe: Gpupipe, table: Path) -> None:
    config = table.parent / "mine.yaml"
    config.write_text("source: {path: old.csv}")
    args = ("init", "sales.csv", "--target", "sold", "-o", "mine.yaml")
    result = gpupipe(*args, cwd=table.parent)
    assert result.returncode == 2
    assert "mine.yaml already exists" in result.stderr
    assert config.read_text() == "source: {path: old.csv}"
    assert gpupipe(*args, "--force", cwd=table.parent).returncode == 0
    assert "sales.csv" in config.read_text()


def test_init_without_a_target_lists_the_columns_and_writes_nothing(gpupipe: Gpupipe, table: Path) -> None:
    result = gpupipe("init", "sales.csv", cwd=table.parent)
    assert result.returncode == 0
    assert "60 rows, 4 columns" in result.stdout
    assert "gpupipe init sales.csv --target sold" in result.stdout
    assert list(table.parent.glob("*.yaml")) == []


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("sales.csv", "--target", "slod"), 2, "did you mean 'sold'?"),
        (("slaes.csv", "--target", "sold"), 5, "did you mean 'sales.csv'?"),
        (("sales.csv", "--target", "sold", "--clustering"), 2, "--clustering and --target exclude each other"),
        (("sales.csv", "--target", "sold", "-o", "no/where.yaml"), 2, "no such folder: no"),
        (("sales.csv", "--target", "sold", "--source", "delimiter=;"), 2, "did you mean 'csv.delimiter'?"),
    ],
)
def test_a_typo_is_reported_with_a_fix(
    gpupipe: Gpupipe, table: Path, args: tuple[str, ...], code: int, message: str
) -> None:
    result = gpupipe("init", *args, cwd=table.parent)
    assert result.returncode == code
    assert message in result.stderr
    assert list(table.parent.glob("*.yaml")) == []


def models_and_notes(config: Path) -> tuple[list[str], str]:
    """Return what the models of a configuration are called, and all comments as one text."""
    text = config.read_text()
    entries = [{entry: {}} if isinstance(entry, str) else entry for entry in yaml.safe_load(text)["models"]]
    names = [entry.get("as") or next(iter(entry)) for entry in entries]
    return names, " ".join(line.partition("# ")[2].strip() for line in text.splitlines())


@pytest.mark.usefixtures("usable_gpu")
@pytest.mark.parametrize(
    ("target", "linear"),
    nightly_unless(lambda target, _: target == "sold", [("sold", "logistic_regression"), ("price", "ridge")]),
)
def test_on_a_machine_with_a_gpu_every_model_trains_there(
    gpupipe_process: Gpupipe, tmp_path: Path, target: str, linear: str
) -> None:
    rows = [f"{i % 7},{i * 0.37:.2f},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (tmp_path / "sales.csv").write_text("\n".join(["size,price,sold", *rows]))
    made = gpupipe_process("init", "sales.csv", "--target", target, cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    names, notes = models_and_notes(tmp_path / "sales.yaml")
    assert names == [linear, "xgboost", "small_trees"]
    assert "GPU, NVIDIA Fake 0" in notes and "NVIDIA Fake 0" in made.stdout
    assert ("pip install 'gpupipe[cuda13]'" in notes) is bool(missing_packages())
    assert "always trains on the CPU: - hist_gradient_boosting" in notes
    planned = gpupipe_process(
        "plan", "sales.yaml", "--assume-gpu", "80GiB", "--set", "fallback=forbid", "--json", cwd=tmp_path
    )
    assert planned.returncode == 0, planned.stderr
    devices = {stage["name"].partition("train ")[2]: stage["device"] for stage in json.loads(planned.stdout)["stages"]}
    assert [devices[name] for name in names] == ["gpu", "gpu", "gpu"]


def test_on_a_machine_without_a_gpu_gradient_boosting_is_scikit_learn_s(gpupipe: Gpupipe, table: Path) -> None:
    assert gpupipe("init", "sales.csv", "--target", "sold", cwd=table.parent).returncode == 0
    names, notes = models_and_notes(table.parent / "sales.yaml")
    boosted = ["hist_gradient_boosting", *["xgboost"] * has_xgboost(), "small_trees"]
    assert names == ["logistic_regression", "random_forest", *boosted]
    assert ("- xgboost" in notes) is not has_xgboost() and "GPU" not in notes


def test_source_options_are_written_to_the_configuration_which_runs(gpupipe: Gpupipe, table: Path) -> None:
    text = table.read_text().replace(",", ";").replace("colour", "colouré")
    (table.parent / "sales.data").write_bytes(text.encode("latin-1"))
    options = ("--source", "format=csv", "--source", "csv.delimiter=;", "--source", "csv.encoding=latin-1")
    result = gpupipe("init", "sales.data", "--target", "sold", *options, "--source", "isolate=true", cwd=table.parent)
    assert result.returncode == 0, result.stderr
    source = yaml.safe_load((table.parent / "sales.yaml").read_text())["source"]
    assert (source["format"], source["isolate"]) == ("csv", True)
    assert source["csv"] == {"delimiter": ";", "encoding": "latin-1"}
    assert gpupipe("check", "sales.yaml", cwd=table.parent).returncode == 0
    listed = gpupipe("init", "sales.data", *options, cwd=table.parent)
    assert "colouré" in listed.stdout


def test_a_file_without_a_header_is_reported(gpupipe: Gpupipe, table: Path) -> None:
    table.write_text("".join(table.read_text().splitlines(keepends=True)[1:]))
    assert "the file has no header, so they are numbered" in gpupipe("init", "sales.csv", cwd=table.parent).stdout
    result = gpupipe("init", "sales.csv", "--target", "last", cwd=table.parent)
    assert "The file has no header: its columns are named c1 to c4 here." in result.stdout


@pytest.mark.nightly  # tests/starter runs starter configurations by day, and tests/configs this table
@pytest.mark.data
def test_telco_scores_well_with_no_edits(gpupipe: Gpupipe, data_dir: Path, tmp_path: Path) -> None:
    table = data_dir / "telco-churn" / "Telco-Customer-Churn.csv"
    assert gpupipe("init", table, "--target", "Churn", "-o", "telco.yaml", cwd=tmp_path).returncode == 0
    quickly = ("--set", "report.enabled=false", "--set", "evaluate.importance=false")
    result = gpupipe("run", "telco.yaml", "--output", "run", "--json", *quickly, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["models"][metrics["best"]]["roc_auc"] >= 0.8403


def test_links_out_of_a_folder_are_refused_unless_the_setting_allows_them(gpupipe, tmp_path: Path) -> None:
    rows = "size,shop,bought\n" + "".join(f"{i % 7},{'ab'[i % 2]},{'yes' if i % 5 > 1 else 'no'}\n" for i in range(60))
    for name in ("table/a.csv", "private/x.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(rows)
    (tmp_path / "table/linked.csv").symlink_to("../private/x.csv")
    command = ["init", "table", "--target", "bought", "-o", "c.yaml"]
    refused = gpupipe(*command, cwd=tmp_path)
    assert (refused.returncode, "outside_files: true" in refused.stderr) == (5, True)
    assert gpupipe(*command, "--source", "outside_files=true", cwd=tmp_path).returncode == 0
    assert "  outside_files: true" in (tmp_path / "c.yaml").read_text()
    assert gpupipe("check", "c.yaml", cwd=tmp_path).returncode == 0
    assert gpupipe("check", "c.yaml", "--set", "source.outside_files=false", cwd=tmp_path).returncode == 5
