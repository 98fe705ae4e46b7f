"""Examples of the pages in docs/: Python is executed, YAML is checked against tables, commands are parsed.

Excerpts in README.md and on the front page are not complete: Python is compiled, and YAML checked without tables.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import click
import duckdb
import pandas as pd
import pytest
import yaml
from deltalake import write_deltalake
from markdown_it import MarkdownIt

import gpupipe as gp
from gpupipe.cli import COMMANDS, cli, main
from gpupipe.config import load_config
from gpupipe.datasets.churn import customers, events, write
from gpupipe.features import OPS
from gpupipe.models import MODELS
from gpupipe.plan.data_check import check_data
from tests.nightly import nightly_unless

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = {
    "reference",
    "gallery",
    "auto_gallery",
    "plugin_template",
    "changelog.md",
    "contributing.md",
    "security.md",
}
PAGES = {
    str(path.relative_to(DOCS)): path
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in GENERATED
}
EXCERPTS = [ROOT / "README.md", *filter(Path.exists, [PAGES.pop("index.md", DOCS / "index.md")])]
LANGUAGES = {"python", "yaml", "console", "text", "{include}", "{image}", "{literalinclude}", "{toctree}"}
ONLY_COMPILED = {
    "guide/clusters.md": "SLURM and Kubernetes",
    "guide/kernels.md": "tests/kernels/test_guide.py runs it",
}
COMMANDS_RUN = {"quickstart.md"}
SOURCE = {"path": "customers.csv", "target": "Churn", "positive": "Yes", "id": "customerID"}


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    fences = [token for token in MarkdownIt("commonmark").parse(path.read_text()) if token.type == "fence"]
    return [Block(token.info.split(" ")[0], token.content, token.map[0] + 1) for token in fences if token.map]


def calls(block: Block) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the variables and arguments of each gpupipe command of a block."""
    for line in re.sub(r"\\\n\s*", "", block.text).replace(" && ", "\n").splitlines():
        if call := gpupipe_call(line.removeprefix("$ ")):
            assert all((ROOT / word).exists() for word in call[1] if word.startswith("configs/")), line
            yield call


def small_tables() -> dict[str, pd.DataFrame]:
    """Return further tables of the pages: contracts, the lines of orders, sales by day, payments by card, and texts."""
    days = pd.date_range("2024-01-01", periods=60, freq="6D")
    lines = [
        (f"c{i % 20}", f"i{i}", day, 1 + i % 3, 4.5 + i % 7)
        for i, day in enumerate(days.repeat(5))
        if i < 100 + 9 * (i % 20)  # some customers stop
    ]
    sales = [(store, day, 10 + i % 7) for i, day in enumerate(days) for store in ("north", "south")]
    payments = [(f"card{i % 9}", day, 20.0 + i % 11, int(i % 10 == 0)) for i, day in enumerate(days.repeat(4))]
    tickets = [(f"Called on day {i}, see https://a.example/{i}", f"Ann {i % 7}", int(i % 3 == 0)) for i in range(120)]
    contracts = [("Month-to-month", 30, 0.0), ("One year", 90, 0.1), ("Two year", 90, 0.2)]
    cars = [(f"${1000 + 7 * i:,}.50", f"{1_000 + i:,} CC", f"{800 + i},5 kg", i % 2) for i in range(200)]
    offers = [(f"{15 + i}.5 kmpl", f"1.{100 + i},50 €", f"{i}%", f"{1 + i % 9} years", i % 2) for i in range(200)]
    trips = [("north", f"{'large' if i % 3 else 'small'}", f"d{i % 40}", 5.0 + i % 7, i % 2) for i in range(200)]
    sensors = [(-999.0 if i % 9 == 0 else 80.0 + i % 13, 2.0 + i % 5, day, 20.0 + i % 7) for i, day in enumerate(days)]
    return {
        "contracts": pd.DataFrame(contracts, columns=["Contract", "notice_days", "discount"]),
        "lines": pd.DataFrame(lines, columns=["customer", "invoice", "at", "quantity", "price"]),
        "sales": pd.DataFrame(sales, columns=["store", "day", "sold"]),
        "payments": pd.DataFrame(payments, columns=["card", "at", "amount", "fraud"]),
        "tickets": pd.DataFrame(tickets, columns=["note", "name", "urgent"]),
        "sensors": pd.DataFrame(sensors, columns=["nox", "co", "seen", "y"]),
        "offers": pd.DataFrame(offers, columns=["mileage", "price", "share", "employed", "sold"]),
        "trips": pd.DataFrame(trips, columns=["origin", "size", "driver", "minutes", "paid"]).assign(goal="south"),
        "cars": pd.DataFrame(cars, columns=["price", "engine", "weight", "sold"]),
    }


def films() -> pd.DataFrame:
    """Return films with lists: genres, ratings, a cast written as JSON arrays, and embeddings of three numbers."""
    genres = ["drama", "crime", "comedy"]
    rows = [
        (genres[: i % 4], [3.0 + i % 3] * (i % 5), f'["Ann {i % 9}", "Bo {i}"]', [i / 9, 0.5, -i / 7], int(i % 4 > 1))
        for i in range(120)
    ]
    return pd.DataFrame(rows, columns=["genres", "ratings", "cast", "embedding", "liked"])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables that the pages read, and a run on the first one."""
    folder = tmp_path_factory.mktemp("tables")
    write(folder / "customers.csv", rows=2_000)
    customers(50, start=2_000).to_pandas().drop(columns="Churn").to_csv(folder / "new.csv", index=False)
    events(400).to_pandas().to_parquet(folder / "events.parquet")
    films().to_parquet(folder / "films.parquet")
    for name, frame in small_tables().items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    (folder / "data").mkdir()
    shutil.copy(folder / "customers.csv", folder / "data")
    write_deltalake(folder / "clones" / "sales", customers(2_000))
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.from_arrow(customers(2_000)).create("customers")
    pipe = gp.Pipeline.from_dict(
        {"source": {**SOURCE, "path": str(folder / "customers.csv")}, "models": ["logistic_regression"]}
    )
    pipe.run(folder / "runs" / "customers", quiet=True)
    return folder


@pytest.fixture
def folder(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a copy of the tables as the current folder."""
    copy = tmp_path / "work"
    shutil.copytree(tables, copy)
    (copy / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(copy)
    monkeypatch.setenv("ROWS", "10000")
    monkeypatch.setenv("DATABASE_URI", "duckdb:///shop.duckdb")
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    yield copy


@pytest.mark.parametrize(
    "name",
    nightly_unless(
        lambda name: name != "guide/dask.md",  # it starts a cluster for each example
        [name for name, path in PAGES.items() if "```" in path.read_text()],
    ),
)
def test_every_example_works(name: str, folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(PAGES[name]):
        assert block.language in LANGUAGES, f"{name}:{block.line}: {block.language or 'no language'}"
        if block.language == "python":
            code = compile_python(block, name, folder)
            if name not in ONLY_COMPILED:
                exec(code, namespace)
        elif block.language == "yaml":
            check_data(load_configuration(block, folder))
        elif block.language == "console":
            for variables, arguments in calls(block):
                if name not in COMMANDS_RUN:
                    check_options(arguments)
                    continue
                with pytest.MonkeyPatch.context() as patch:
                    for variable, value in variables.items():
                        patch.setenv(variable, value)
                    assert main(arguments) == 0, arguments


@pytest.mark.parametrize("page", EXCERPTS, ids=lambda path: path.name)
def test_every_excerpt_is_valid(page: Path, tmp_path: Path) -> None:
    (tmp_path / "my_models.py").write_text("def make(depth): ...\n")
    for block in blocks(page):
        if block.language == "python":
            compile_python(block, page.name, tmp_path)
        elif block.language == "yaml":
            load_configuration(block, tmp_path)
        else:
            for _, arguments in calls(block):
                check_options(arguments)


def test_the_readme_shows_the_leaderboard_of_its_configuration(tmp_path: Path) -> None:
    found = blocks(ROOT / "README.md")
    (settings,) = [block.text for block in found if block.language == "yaml"]
    (shown,) = [block.text for block in found if block.language == "text"]
    (tmp_path / "churn.yaml").write_text(settings)
    run = gp.Pipeline.from_yaml(tmp_path / "churn.yaml", overrides=["report.enabled=false"]).run(tmp_path / "run")
    metrics = run.config.evaluate.metrics
    assert metrics
    for line in shown.partition("─\n")[2].splitlines():
        label, _, *values = line.removeprefix("★").split()
        scores = [run.document["models"][label][name] for name in metrics]
        assert [float(value) for value in values] == pytest.approx(scores, abs=0.004), label


def compile_python(block: Block, name: str, folder: Path) -> CodeType:
    """Return the code of a block; one whose first line is ``# NAME.py`` is written to that file too."""
    if file := re.match(r"# (\w+\.py)", block.text):
        (folder / file[1]).write_text(block.text)
    return compile("\n" * block.line + block.text, name, "exec")


def load_configuration(block: Block, folder: Path) -> gp.Config:
    """Return the configuration of a block; an excerpt is completed by the first of the `tables`."""
    source = yaml.safe_load(block.text).get("source", {})
    is_whole = {"path", "generate", "entities", "sql", "delta", "iceberg"} & set(source)
    missing = {} if is_whole else {name: value for name, value in SOURCE.items() if name not in source}
    file = folder / "example.yaml"
    file.write_text(block.text)
    return load_config(file, [f"source.{name}={value}" for name, value in missing.items()])


def gpupipe_call(line: str) -> tuple[dict[str, str], list[str]] | None:
    """Return the variables and arguments of a gpupipe command; None for other programs."""
    words = shlex.split(line, comments=True)
    words = words[: words.index(">")] if ">" in words else words
    variables: dict[str, str] = {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    return (variables, words[1:]) if words[:1] == ["gpupipe"] else None


def check_options(arguments: Sequence[str]) -> None:
    """Parse the arguments of gpupipe by its own parsers; raise click.UsageError if they are wrong."""
    command: click.Command = cli
    left = [word for word in arguments if word != "--debug"]
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        found = command.get_command(click.Context(command), left.pop(0))
        assert found is not None, arguments
        command = found
    context = click.Context(command)
    values, _, _ = command.make_parser(context).parse_args(left)
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice) and isinstance(values.get(parameter.name), str):
            parameter.type.convert(values[parameter.name], parameter, context)


def test_guides_start_with_an_example_and_end_with_the_next_page() -> None:
    for name in [name for name in PAGES if name.startswith("guide/") and name != "guide/index.md"]:
        lines = PAGES[name].read_text().rstrip().splitlines()
        title = next(i for i, line in enumerate(lines) if line.startswith("# "))
        assert any(line.startswith(("```", "| ")) for line in lines[title : title + 8]), name
        assert re.fullmatch(r"Next: \[.+\]\(.+\.md(#.+)?\)\.", lines[-1]), name


def test_every_command_is_in_an_example() -> None:
    found = [block for path in PAGES.values() for block in blocks(path) if block.language == "console"]
    assert {word for block in found for _, arguments in calls(block) for word in arguments[:1]} >= set(COMMANDS)


def test_the_guide_links_every_op_and_every_model() -> None:
    guide = "".join(path.read_text() for name, path in PAGES.items() if name.startswith("guide/"))
    linked = {kind: set(re.findall(rf"/reference/{kind}/(\w+)>", guide)) - {"index"} for kind in ("ops", "models")}
    assert linked == {"ops": set(OPS.names()), "models": set(MODELS.names())}


def test_every_quoted_message_is_in_the_sources() -> None:
    """The table of messages in the troubleshooting page quotes fragments of real ones."""
    page = (DOCS / "guide" / "troubleshooting.md").read_text()
    table = page.partition("## Messages")[2]
    quoted = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    sources = "\n".join(path.read_text() for path in (ROOT / "gpupipe").rglob("*.py"))
    assert len(quoted) >= 25
    assert [text for text in quoted if text not in sources] == []


def test_the_training_loop_learns(folder: Path) -> None:
    loop, bags = [b for b in blocks(DOCS / "guide" / "tensors.md") if "loss.backward()" in b.text]
    namespace: dict[str, Any] = {}
    exec(compile(loop.text, "tensors.md", "exec"), namespace)
    import torch
    from sklearn.metrics import roc_auc_score

    with torch.inference_mode():
        score = roc_auc_score(namespace["test"].target, namespace["net"](namespace["test"].features)[:, 0])
    assert len(namespace["batches"]) == 16 and 0.76 < score < 0.87
    exec(compile(bags.text, "tensors.md", "exec"), namespace)
    test = namespace["test"]
    with torch.inference_mode():
        vectors = namespace["bag"](*test.bags["genres"])
        logits = namespace["net"](torch.cat([vectors, test.features], dim=1))[:, 0]
    assert ((logits > 0) == test.target.bool()).all()  # the target is whether the list has two genres
