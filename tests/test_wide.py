"""Work proportional to the number of columns of a table: 20,000 are ordinary in genomics.

Nothing is timed: the function calls of whole commands are counted at three widths. If each column adds as much as the
one before, the step from 2n to 4n columns adds twice as many calls as the step from n to 2n; if each column is compared
with all others, four times as many. Methods that read a whole table or list must not be called once for each column.
"""

from __future__ import annotations

import cProfile
import pstats
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.cli import main

WIDTHS = (60, 120, 240)
ROWS = 100
MOST_GROWTH = 2.7
# Each takes time for every column of the table, or item of the list, that it is called on.
WHOLE_TABLE = re.compile(
    r"schema_arrow|'(set_column|append_column|add_column|remove_column|drop_columns|rename_columns|cast|"
    r"to_batches|combine_chunks|replace_schema_metadata)' of 'pyarrow\.lib\.(_Tabular|Table|RecordBatch|Schema)|"
    r"'(count|index)' of 'list'"
)

CONFIG = """
source: {{path: {path}, target: target}}
split: {{test_size: 0.25}}
features: [{{impute: "@numeric"}}, {{standardize: "@numeric"}}, {{encode: "@categorical"}}]
models: [logistic_regression]
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("GPUPIPE_THREADS", "1")  # a profile sees the thread it was started in


def write_table(folder: Path, width: int) -> None:
    """Write a table of numbers, a fifth of them with nulls, and of texts."""
    generator = np.random.default_rng(0)
    columns = {}
    for i in range(width):
        numbers = generator.normal(size=ROWS)
        if i % 5 == 0:
            columns[f"text_{i}"] = pa.array(generator.choice(["a", "b", "NA"], ROWS))
        else:
            columns[f"gene_{i}"] = pa.array(numbers, mask=numbers > (1.0 if i % 5 == 1 else 9.0))
    columns["target"] = pa.array(np.where(generator.random(ROWS) < 0.5, "case", "control"))
    pq.write_table(pa.table(columns), folder / "table.parquet")
    pc.write_csv(pa.table(columns), folder / "table.csv")
    (folder / "config.yaml").write_text(CONFIG.format(path=folder / "table.parquet"))


def calls_of(folder: Path, width: int) -> dict[str, dict[str, int]]:
    """Return the calls of each function, for each command on a table of `width` columns."""
    folder = folder / str(width)
    folder.mkdir()
    write_table(folder, width)
    table, config, run = folder / "table.csv", folder / "config.yaml", folder / "run"
    found: dict[str, dict[str, int]] = {}
    for command in (
        ["init", table, "--target", "target", "-o", folder / "starter.yaml"],
        ["check", folder / "starter.yaml"],
        ["run", config, "--output", run, "--quiet"],
        ["predict", run, folder / "table.parquet", "-o", folder / "scores.csv"],
    ):
        profile = cProfile.Profile()
        assert profile.runcall(main, list(map(str, command))) == 0
        stats = vars(pstats.Stats(profile))["stats"]  # (file, line, function) to calls, and times
        found[str(command[0])] = {
            f"{Path(file).name}:{line} {name}": n for (file, line, name), (_, n, *_) in stats.items()
        }
    return found


def test_commands_do_no_more_for_a_column_of_a_wide_table(tmp_path):
    calls_of(tmp_path, 20)  # imports, and what is made once in a process
    narrow, middle, wide = (calls_of(tmp_path, width) for width in WIDTHS)
    faults = []
    for command, counts in wide.items():
        for function, n in counts.items():
            first, second = narrow[command].get(function, 0), middle[command].get(function, 0)
            if WHOLE_TABLE.search(function) and n - first > WIDTHS[0] // 2:
                faults.append(f"{command}: {function} reads a whole table, {first}, {second} and {n} times")
            if n > 10 * WIDTHS[-1] and n - second > MOST_GROWTH * max(second - first, WIDTHS[0]):
                faults.append(f"{command}: {function} is called {first:,}, {second:,} and {n:,} times")
    assert not faults, "\n".join(faults)


def test_importance_is_measured_for_the_columns_that_the_model_relies_on(tmp_path):
    generator = np.random.default_rng(0)
    genes = generator.normal(size=(300, 150))
    table = {f"gene_{i}": genes[:, i] for i in range(150)}
    table |= {"target": genes[:, 140] - 2 * genes[:, 149], "scaled": 1e-6 * genes[:, 149]}
    for models in (["ridge"], [{"knn": {"n_neighbors": 9}}]):  # with coefficients, and without an importance measure
        run = gp.Pipeline(
            source=pa.table(table), target="target", models=models, evaluate={"importance": {"columns": 4}},
            features=[{"standardize": "@numeric"}], output=str(tmp_path),
        ).run()  # fmt: skip
        measured = run.importances
        assert len(measured) == 4
        assert {"gene_149", "scaled"} <= set(measured["column"])
        assert "4 of 151 columns" in (run.path / "report.html").read_text()
