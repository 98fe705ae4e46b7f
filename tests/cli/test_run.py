"""``gpupipe run`` and ``gpupipe predict`` on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from gpupipe.cli.run import shared_by_gpus
from gpupipe.config import load_config
from tests.import_budget import require_few_imports
from tests.nightly import nightly_unless

ROOT = Path(__file__).parents[2]
SMALL = """\
source: {generate: churn, rows: 2000, target: Churn, positive: "Yes", drop: [customerID]}
models: [logistic_regression, hist_gradient_boosting: {max_iter: 10}]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a small configuration."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_it_runs_predicts_and_the_two_agree(gpupipe_process, small: Path, tmp_path: Path) -> None:
    trace = ("-X", "importtime")
    done = gpupipe_process("run", small, "--output", tmp_path / "out", cwd=tmp_path, python=trace)
    assert done.returncode == 0, done.stderr
    require_few_imports(done.stderr, "run")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"gpupipe.dask", "gpupipe.partitions"}  # the rows are in memory
    assert "cpu: " in done.stderr and "ROC AUC" in done.stderr
    assert "\x1b" not in done.stderr  # no control characters where there is no terminal
    from gpupipe.datasets.churn import write

    write(tmp_path / "all.parquet", 2000, 7)
    scored = gpupipe_process(
        "predict", tmp_path / "out", tmp_path / "all.parquet", "-o", tmp_path / "scores.csv", cwd=tmp_path
    )
    assert scored.returncode == 0, scored.stderr
    scores = pd.read_csv(tmp_path / "scores.csv")
    tested = pd.read_parquet(tmp_path / "out" / "predictions.parquet")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    auc = roc_auc_score(tested["target"] == "Yes", scores["probability_Yes"].to_numpy()[tested["row"]])
    assert auc == pytest.approx(metrics["models"][metrics["best"]]["roc_auc"], abs=1e-6)


def test_json_is_one_document_and_the_default_directory_is_below_output(gpupipe, small: Path, tmp_path: Path) -> None:
    done = gpupipe("run", small, "--json", "--quiet", "--set", "seed=4", "--set", "name=mine", cwd=tmp_path)
    document = json.loads(done.stdout)
    run = tmp_path / document["run_directory"]
    assert run.parent == tmp_path / "runs" and run.name.startswith("mine-")
    assert document["best"] in document["models"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--device", "gpu"], 4, "GPU"),
        (["--gpus", "2"], 4, "GPU"),
        (["--gpus", "2", "--cluster", "local"], 2, "--gpus cannot be combined with --cluster"),
        (["--set", "source.target=Chrun"], 5, "Churn"),
        (["--set", "source.generate=churm"], 2, "churn"),
        (["--set", "models=[logistic_regresion]"], 2, "did you mean 'logistic_regression'?"),
        (["--set", "features=[standardize: nothing]"], 2, "nothing"),
    ],
)
def test_an_error_fits_one_screen_and_has_its_exit_code(gpupipe, small, tmp_path, arguments, code, words) -> None:
    done = gpupipe("run", small, *arguments, "--output", tmp_path / "out", "--quiet", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 20
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml"}


@pytest.mark.data
def test_every_damaged_parquet_file_is_exit_5_on_one_screen(gpupipe, data_dir: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    # No target is needed, so that a file which could be read after all would run to its end.
    config.write_text("source: {path: FILE}\nmodels: [kmeans: {n_clusters: 2}]\nreport: {enabled: false}\n")
    for path in sorted((data_dir / "parquet-types" / "bad_data").glob("*.parquet")):
        done = gpupipe("run", config, "--set", f"source.path={path}", "--quiet", cwd=tmp_path)
        if path.name == "ARROW-GH-43605.parquet" and done.returncode == 0:
            continue  # newer readers can read this one
        assert done.returncode == 5, (path.name, done.stderr)
        assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 15, (path.name, done.stderr)


@pytest.mark.data
def test_every_valid_table_loads_or_is_refused_with_a_reason(data_dir: Path) -> None:
    from gpupipe.backends import choose
    from gpupipe.errors import GpupipeError
    from gpupipe.io.csv_settings import CsvSettings
    from gpupipe.io.settings import TableSource
    from gpupipe.io.source_reader import read_arrow
    from gpupipe.table.encode import encode

    loaded = 0
    backend = choose("cpu")
    files = sorted(p for p in data_dir.rglob("*") if p.suffix in (".csv", ".gz", ".parquet", ".data", ".test"))
    for path in files:
        if "bad_data" in path.parts or path.name in ("MANIFEST.csv", "large_string_map.brotli.parquet"):
            continue
        form = "csv" if path.suffix in (".data", ".test") else "auto"
        names = tuple(f"c{i}" for i in range(15)) if form == "csv" else None
        source = TableSource(path=str(path), format=form, csv=CsvSettings(bad_rows="skip", names=names))
        try:
            table = encode(read_arrow(source).table, backend)
        except GpupipeError as error:
            assert error.exit_code == 5 and error.what, path
        else:
            assert table.n_rows > 0
            loaded += 1
    assert loaded >= 55


@pytest.mark.parametrize("after", nightly_unless(lambda after: after == 5, [1, 3, 5, 8, 11]))
def test_a_killed_run_leaves_nothing_under_its_name(small: Path, tmp_path: Path, after: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}
    command = [sys.executable, "-m", "gpupipe", "run", str(small), "--output", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, text=True) as process:
        assert process.stderr is not None
        for _ in range(after):  # lines of progress
            process.stderr.readline()
        process.kill()
    assert not (tmp_path / "out").exists()
    # The next run removes the files of the killed one and takes its name.
    done = subprocess.run([*command, "--quiet"], env=environment, cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml", "out"}


def test_a_missed_limit_ends_with_code_6_after_everything_is_written(gpupipe, small: Path, tmp_path: Path) -> None:
    limits = "evaluate={metrics: [roc_auc], by: Contract, fail_on: {min_slice: {roc_auc: 0.99}}}"
    done = gpupipe("run", small, "--json", "--quiet", "--set", limits, "--output", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 6
    document = json.loads(done.stdout)
    assert {each["rule"] for each in document["fail_on"]["missed"]} == {"min_slice"}
    assert done.stderr.startswith("Quality limit missed: the run is complete, but misses evaluate.fail_on:")
    assert "for Contract: " in done.stderr and "Internal" not in done.stderr
    assert (tmp_path / "run" / "report.html").is_file() and (tmp_path / "run" / "model" / "README.md").is_file()


def test_gpus_share_networks_by_processes_and_other_models_by_workers() -> None:
    for models, processes, workers in (("[tabm, mlp]", 2, None), ("[mlp, xgboost]", 1, 2)):
        config = ROOT / "configs" / "churn.yaml"
        more, n = shared_by_gpus(load_config(config, [f"models={models}"]), 2)
        made = load_config(config, [f"models={models}", *more])
        assert (made.device, n, made.cluster.workers) == ("gpu", processes, workers)
        assert made.cluster.scheduler == (None if workers is None else "local")
