"""Pages of the feature ops: one for each, and an index by purpose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

from gpupipe.features import OPS, FeatureOp
from gpupipe.features.ops.base import Op
from gpupipe.features.ops.distinct_text_op import TextOp
from gpupipe.features.ops.items_op import ListOp
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe_reference.links import GITHUB
from gpupipe_reference.markdown import code, fence, inline, link, page, paragraphs, table
from gpupipe_reference.op_example import example_markdown, run_example
from gpupipe_reference.schema_text import definition_of, settings
from gpupipe_reference.setting_list import setting_list

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Default treatment": ("What suits each column and the model.", ("auto",)),
    "Missing values": ("Find and fill nulls, and mark where they were.", ("null_if", "impute")),
    "Scale and shape of numbers": (
        "Statistics are learned from the training rows.",
        ("standardize", "min_max", "robust_scale", "log1p", "yeo_johnson", "clip", "bucketize"),
    ),
    "Categories": (
        "Levels become ids, columns or statistics; null, unseen and rare levels have reserved ids.",
        ("encode", "one_hot", "categorify", "frequency_encode", "target_encode", "group_stats", "hash_bucket", "cross"),
    ),
    "Dates and times": ("Calendar parts, and positions on a circle.", ("datetime_parts", "cyclic")),
    "Places": ("Distances and directions on the earth.", ("haversine", "bearing")),
    "New columns by formula": (
        "Arithmetic of several columns, row by row.",
        ("arithmetic", "expression", "polynomial", "kernel"),
    ),
    "Generated features": ("Combinations that are tried, and kept if they help.", ("generate",)),
    "Text": ("Numbers of texts.", ("text_vectors", "text_hash", "text_counts", "parse_number")),
    "Lists": ("Numbers of lists.", ("multi_hot", "list_stats", "list_hash", "list_columns", "bag_ids")),
    "History of a key": (
        "Statistics of earlier rows or events of the same key. No event after the cut-off is used.",
        ("aggregate", "lag", "difference", "rolling", "decay", "sessions", "time_since", "rfm", "last_events"),
    ),
    "Selection": ("Columns that are not features.", ("drop",)),
}

# Base class of ops that are not row-wise → engine on the CPU, engine on the GPU
ENGINES: tuple[tuple[type[FeatureOp], tuple[str, str]], ...] = (
    (KeyedOp, ("NumPy, or compiled by Numba for long histories", "CuPy and CUDA kernels")),
    (ListOp, ("Arrow and NumPy", "Arrow and NumPy on the CPU; the columns are copied to the GPU")),
    (
        TextOp,
        ("NumPy, or compiled by Numba for much text", "CUDA kernels; Arrow decodes and matches patterns on the CPU"),
    ),
)
ROW_WISE = ("the feature program: one pass of NumPy over blocks of rows", "the feature program: one CUDA launch")
FITTED = ("NumPy, or compiled by Numba for many values", "CUDA kernels and CuPy")


def op_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each page by its path in the reference.

    Raises
    ------
    ValueError
        If an op belongs to no group or to two, or has no example.
    """
    grouped = [name for _, names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(OPS.names()):
        raise ValueError(f"each op belongs to one group of {__name__}: {sorted(set(grouped) ^ set(OPS.names()))}")
    pages = {f"ops/{name}.md": op_page(name, op, links) for name, op in OPS.items()}
    return pages | {"ops/index.md": index_page()}


def op_page(name: str, op: type[FeatureOp], links: Mapping[str, str]) -> str:
    """Return the page of an op.

    Raises
    ------
    ValueError
        If the op has no example, or a setting has no description.
    """
    summary, rest, doctest = split_docstring(op)
    label = op_label(name)
    if not doctest:
        raise ValueError(f"the op {name} has no example: add `Examples:` to the docstring of {op.__name__}")
    example = example_markdown(run_example(doctest, name))
    found = settings(definition_of(op.__name__), {})
    missing = [setting.name for setting in found if not setting.description]
    if missing:
        raise ValueError(f"settings of the op {name} without a description: {', '.join(missing)}")
    return page(
        label,
        code(name),
        inline(summary, links, label),
        paragraphs(rest, links, label),
        f"## Example\n\n{example}",
        "## Settings\n\n" + setting_list(found, label, links),
        _short_form(name, op),
        "## Where it runs\n\n" + _engines(op),
        f"Source: [{code(_file(op))}]({GITHUB}/blob/main/{_file(op)})",
    )


def split_docstring(op: type) -> tuple[str, str, str]:
    """Return the first paragraph, the paragraphs after it, and the examples of a docstring."""
    text = inspect.cleandoc(op.__doc__ or "")
    prose, *examples = re.split(r"(?m)^Examples:?\n(?:-+\n)?", text, maxsplit=1)
    head, _, rest = prose.partition("\n\n")
    if ".\n" in head:  # the first sentence ends with its line
        head, _, more = head.partition(".\n")
        head, rest = f"{head}.", f"{more}\n\n{rest}"
    return head, rest.strip(), examples[0] if examples else ""


def op_label(name: str) -> str:
    """Return the label of an op's page."""
    return f"op-{name.replace('_', '-')}"


def _file(op: type[FeatureOp]) -> str:
    return op.__module__.replace(".", "/") + ".py"


def _short_form(name: str, op: type[FeatureOp]) -> str:
    required = [field.alias or key for key, field in op.model_fields.items() if field.is_required()]
    if required != ["columns"]:
        return ""
    text = f"features:\n  - {name}: age\n  - {name}: [tenure, age]"
    return "A name or a list instead of the settings is the selection of columns:\n\n" + fence(text, "yaml")


def _engines(op: type[FeatureOp]) -> str:
    rows = []
    if _learns(op):
        rows.append(["fit: statistics of the training rows", *FITTED])
    derived = next((engines for base, engines in ENGINES if issubclass(op, base)), None)
    rows.append(["values", *(derived or ROW_WISE)])
    return table(["step", "CPU", "GPU"], rows)


def _learns(op: type[FeatureOp]) -> bool:
    """Return whether the op learns from the training rows."""
    if issubclass(op, Op):
        return op.fit is not Op.fit
    return "statistics" in inspect.getsource(op)


def index_page() -> str:
    """Return the index of the ops, by purpose."""
    blocks = []
    for title, (what, names) in GROUPS.items():
        rows = [[link(code(name), op_label(name)), inline(split_docstring(OPS.get(name))[0])] for name in names]
        blocks.append(f"## {title}\n\n{what}\n\n{table(['op', 'result'], rows)}")
    toctree = fence("*", "{toctree}", {"hidden": "", "glob": "", "maxdepth": "1"})
    return page(
        "reference-ops",
        "Feature ops",
        f"{len(OPS.names())} ops make features of columns. They run in the order of the list `features:`; each selects "
        "columns by name, by glob, or by kind (`@numeric`, `@categorical`, `@datetime`, `@boolean`, `@text`, `@all`). "
        "Columns that no op selects get the default treatment of " + link("`auto`", "op-auto") + ".",
        *blocks,
        toctree,
    )
