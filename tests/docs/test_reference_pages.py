"""Reference pages generated from the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from markdown_it import MarkdownIt

from gpupipe.cli import COMMANDS, cli
from gpupipe.config import Config, load_config
from gpupipe.features import OPS
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.metrics import METRICS
from gpupipe.models import MODELS
from gpupipe.settings import Settings
from gpupipe_reference import reference_pages, write_pages
from gpupipe_reference.configuration_examples import EXAMPLES
from gpupipe_reference.markdown import inline, paragraphs, table
from gpupipe_reference.op_example import ExampleError, run_example, yaml_text
from gpupipe_reference.ops import op_page
from gpupipe_reference.python_api import error_classes, file_stem, public_names
from gpupipe_reference.repository import repository_pages, text_for_site
from gpupipe_reference.schema_text import type_text

ROOT = Path(__file__).parent.parent.parent
SOURCE = "source: {path: customers.csv, target: churned}\n"


@cache
def pages() -> dict[str, str]:
    return reference_pages()


def anchors(text: str) -> set[str]:
    """Return the labels and anchors that a page defines."""
    return set(re.findall(r"^\(([\w.-]+)\)=$", text, re.MULTILINE)) | set(re.findall(r"\]\{#([^}\s]+)\}", text))


def settings_of(kind: type[Settings]) -> set[str]:
    return {(field.alias or name).replace("_", "-").lower() for name, field in kind.model_fields.items()}


def test_links_between_generated_pages_lead_to_a_label() -> None:
    labels = set().union(*map(anchors, pages().values()))
    links = {link for text in pages().values() for link in re.findall(r"\]\(#([^)]+)\)", text)}
    assert links - labels == set()


@pytest.mark.parametrize("name", OPS.names())
def test_a_page_of_an_op_has_every_setting_and_tables(name: str) -> None:
    text = pages()[f"ops/{name}.md"]
    label = f"op-{name.replace('_', '-')}"
    assert {f"{label}-{setting}" for setting in settings_of(OPS.get(name))} <= anchors(text)
    assert "**Before**" in text
    assert "**After (view" in text


@pytest.mark.parametrize("name", MODELS.names())
def test_a_page_of_a_model_has_every_parameter(name: str) -> None:
    text = pages()[f"models/{name}.md"]
    label = f"model-{name.replace('_', '-')}"
    assert {f"{label}-{setting}" for setting in settings_of(MODELS.get(name))} <= anchors(text)


def test_every_section_of_the_configuration_has_its_settings() -> None:
    general = anchors(pages()["configuration/general.md"])
    for name in Config.model_fields:
        assert f"configuration/{name}.md" in pages() or f"config-general-{name.replace('_', '-')}" in general
    known = set().union(*map(anchors, pages().values()))
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            assert {f"config-{name}-{setting}" for setting in settings_of(field.annotation)} <= known


def test_every_metric_is_listed() -> None:
    assert [name for name in METRICS.names() if f"| `{name}`" not in pages()["metrics.md"]] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_listed(name: str) -> None:
    context = click.Context(cli, info_name="gpupipe")
    command = cli.get_command(context, name)
    assert command is not None
    options = [param.opts[-1] for param in command.params if isinstance(param, click.Option) and not param.hidden]
    section = pages()["cli.md"].partition(f"(cli-{name})=")[2].partition("\n## ")[2]
    assert [option for option in options if f"`{option}`" not in section] == []


def test_every_public_name_has_a_page() -> None:
    errors = {error.__name__ for error in error_classes()}
    names = set(public_names())
    assert len(names) > 20
    assert {name for name in names - errors if f"api/{file_stem(name)}.md" not in pages()} == set()
    assert {name for name in errors if f"gpupipe.{name}\n" not in pages()["errors.md"]} == set()
    folded = [name.lower() for name in pages()]
    assert len(folded) == len(set(folded))  # on file systems that take Run and run for one


@pytest.mark.parametrize("section", EXAMPLES)
def test_an_example_of_the_configuration_is_valid(section: str, tmp_path: Path) -> None:
    file = tmp_path / "customers.yaml"
    source = "" if re.search("^source:", EXAMPLES[section], re.MULTILINE) else SOURCE
    file.write_text(source + EXAMPLES[section])
    load_config(file)


@pytest.mark.parametrize(
    "field, words",
    [
        ({"type": "integer", "minimum": 1}, "integer ≥ 1"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, r"number \> 0 and \< 1"),
        ({"type": "integer", "minimum": 2, "maximum": 255}, "integer from 2 to 255"),
        ({"enum": ["auto", "gpu"], "type": "string"}, "one of `auto`, `gpu`"),
        ({"anyOf": [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}]}, "string, or list of strings"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer"),
        ({"anyOf": [{"anyOf": [{"type": "integer"}], "x-unit": "bytes"}]}, "size: bytes, or text such as `16GiB`"),
        ({"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}}, "mapping of name to [settings](#a)"),
        ({"type": "array", "prefixItems": [{"type": "number"}] * 2}, "list of 2: number"),
    ],
)
def test_types_in_words(field: dict[str, Any], words: str) -> None:
    assert type_text(field, {"A": "a"}) == words


def test_durations_and_sizes_are_named_as_such() -> None:
    limits = pages()["configuration/limits.md"]
    assert "[`memory`]{#config-limits-memory} — size: bytes, or text such as `16GiB`, optional" in limits
    assert "[`time`]{#config-limits-time} — duration: seconds, or text such as `15min`, optional" in limits


EXAMPLE = """
    >>> import pandas as pd
    >>> from gpupipe import FeatureProgram
    >>> frame = pd.DataFrame({"fare": [3.0, None]})
    >>> program = FeatureProgram([{"clip": {"columns": "fare", "upper": 2}}], view="codes")
    >>> program = program.set_output(transform="pandas")
    >>> program.fit(frame).transform(pd.DataFrame({"fare": [5.0]}))
       fare
    0   2.0
"""


def test_an_example_gives_its_tables_and_its_yaml() -> None:
    example = run_example(EXAMPLE, "clip")
    [result] = example.results
    assert result.trained_on is not None
    assert result.trained_on["fare"].tolist()[0] == 3.0
    assert result.before["fare"].tolist() == [5.0]
    assert result.after["fare"].tolist() == [2.0]
    assert yaml_text(example.ops) == "features:\n  - clip: {columns: fare, upper: 2}"


@pytest.mark.parametrize("text", ["", ">>> frame = 1", ">>> program = None\n>>> 2"])
def test_an_example_without_a_table_is_an_error(text: str) -> None:
    with pytest.raises(ExampleError, match="the example of clip"):
        run_example(text, "clip")


class Bare(FeatureOp):
    """Do nothing."""

    def apply(self, builder: ProgramBuilder) -> None:
        """Add no column."""


def test_an_op_without_an_example_stops_the_build() -> None:
    with pytest.raises(ValueError, match="op bare has no example"):
        op_page("bare", Bare, {})


def test_prose_is_escaped_outside_of_code() -> None:
    text = "Globs (usage_*), `a*b`, ``c[0]``, [low, high], with --set seed=8 | lag"
    assert inline(text, {"lag": "op-lag"}) == (
        r"Globs (usage\_\*), `a*b`, `c[0]`, \[low, high\], with `--set seed=8` \| lag"
    )
    assert inline("see `lag` and `rolling`", {"lag": "op-lag", "rolling": "op-rolling"}, "op-lag") == (
        "see `lag` and [`rolling`](#op-rolling)"
    )


def test_a_simple_table_becomes_a_pipe_table() -> None:
    text = "=====  ======\nkind   output\n=====  ======\nnum    scaled\n       float\ntext   none\n=====  ======"
    assert paragraphs(text) == table(["kind", "output"], [["num", "scaled float"], ["text", "none"]])


def test_pages_that_are_no_longer_generated_are_removed(tmp_path: Path) -> None:
    write_pages(tmp_path, {"ops/a.md": "a", "ops/b.md": "b", "cli.md": "c"})
    (tmp_path / "index.md").write_text("by hand")
    write_pages(tmp_path, {"ops/a.md": "new", "cli.md": "c"})
    found = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}
    assert found == {"ops/a.md": "new", "cli.md": "c", "index.md": "by hand"}


def test_files_of_the_repository_get_links_that_work_on_the_site(tmp_path: Path) -> None:
    for name in ("docs/guide.md", "kernels/README.md", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    file = tmp_path / "CONTRIBUTING.md"
    file.write_text("[a](docs/guide.md#x) [b](kernels/README.md) [c](CHANGELOG.md) [d](https://e.org/f) [g](kernels)")
    assert text_for_site(tmp_path, file) == (
        "[a](guide.md#x) [b](https://github.com/gpupipe/gpupipe/blob/main/kernels/README.md) [c](changelog.md) "
        "[d](https://e.org/f) [g](https://github.com/gpupipe/gpupipe/tree/main/kernels)"
    )
    file.write_text("[a](docs/no-such.md)")
    with pytest.raises(ValueError, match=r"CONTRIBUTING.md: the link docs/no-such.md"):
        text_for_site(tmp_path, file)


def test_links_of_the_files_of_this_repository_lead_to_files() -> None:
    assert set(repository_pages(ROOT)) == {"changelog.md", "contributing.md", "security.md"}


def test_the_readme_has_addresses_that_a_package_index_can_follow() -> None:
    html = MarkdownIt("commonmark").render((ROOT / "README.md").read_text(encoding="utf-8"))
    addresses = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert [a for a in addresses if not a.startswith("https://")] == []
    files = [a.partition("/main/")[2] for a in addresses if "/gpupipe/gpupipe/" in a]
    assert len(files) > 20 and [name for name in files if not (ROOT / name).is_file()] == []
    assert "][" not in html  # a link whose address is missing


def test_addresses_in_the_docs_are_well_formed() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")] + list(pages().values())
    addresses = {address for text in texts for address in re.findall(r"\]\((\w+:[^)\s]*)\)", text)}
    wrong = {
        a for a in addresses if urlsplit(a).scheme != "https" or not re.fullmatch(r"[\w.-]+\.\w+", urlsplit(a).netloc)
    }
    assert wrong == set()
