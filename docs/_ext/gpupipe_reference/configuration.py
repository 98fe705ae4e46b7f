"""The configuration reference: a page for each section, generated from the JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from gpupipe.features import OPS
from gpupipe.models import MODELS
from gpupipe_reference.configuration_examples import EXAMPLES
from gpupipe_reference.markdown import code, fence, inline, link, page, paragraphs, table
from gpupipe_reference.schema_text import definition_of, references, schema, settings
from gpupipe_reference.setting_list import anchor, setting_list

SECTIONS = {
    "source": "Read the main table: files, columns, types, target.",
    "tables": "Join further tables, or tables of events.",
    "data": "Enforce rules of columns, in training and in prediction.",
    "split": "Hold rows back to test the models.",
    "features": "Make features: the list of ops.",
    "models": "Train and compare models.",
    "evaluate": "Choose metrics, the threshold, costs, and calibration.",
    "report": "Choose the contents of `report.html`.",
    "track": "Log runs to MLflow or Weights & Biases.",
    "limits": "Limit memory, time, energy and cost.",
    "monitor": "Sample processor, memory, disk and GPUs during a run.",
    "gpu": "Configure the memory of a GPU.",
    "cluster": "Share a run among Dask workers.",
}
GENERAL = "general"
SEE_ALSO = {
    "split": ("reference-splits", "Splits"),
    "data": ("reference-rules", "Rules of columns"),
    "evaluate": ("reference-metrics", "Metrics"),
    "features": ("reference-ops", "Feature ops"),
    "models": ("reference-models", "Models"),
}
# A class of settings → the setting that has it, where prose calls it otherwise
TITLES = {
    "Entities": "entities", "EventLabel": "label", "GroupBy": "group_by", "KeyPair": "on", "Tune": "tune",
    "SearchRange": "tune.space: {low:, high:}", "SearchChoices": "tune.space: {choices:}",
}  # fmt: skip


LISTS = ("features", "models")  # sections that are lists of ops or models


def configuration_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each page by its path in the reference."""
    pages = {f"configuration/{name}.md": _section_page(name, links) for name in SECTIONS}
    pages[f"configuration/{GENERAL}.md"] = _general_page(links)
    pages["configuration/index.md"] = _index_page()
    return pages


def section_label(name: str) -> str:
    """Return the label of a section's page."""
    return f"config-{name}"


@cache
def field_labels() -> dict[str, str]:
    """Return ``section.setting``, as prose writes it, to its label."""
    found = {f"{name}:": section_label(name) for name in SECTIONS}
    for name in SECTIONS:
        for definition in _own(name)[:1]:
            for key in definition_of(definition).get("properties", {}):
                found[f"{name}.{key}"] = anchor(section_label(name), key)
    return found


@cache
def definition_labels() -> dict[str, str]:
    """Return each definition that a section's page describes, and its label."""
    labels: dict[str, str] = {}
    for name in SECTIONS:
        for i, definition in enumerate(_own(name)):
            is_section = i == 0 and name not in LISTS
            labels.setdefault(definition, section_label(name) if is_section else f"config-{definition.lower()}")
    return labels


def _top_level() -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema()["properties"]
    return properties


def _own(section: str) -> list[str]:
    """Return the definitions that a section consists of, its own first; ops and models have their own pages."""
    described = {model.__name__ for _, model in MODELS.items()} | {op.__name__ for _, op in OPS.items()}
    found: list[str] = []
    waiting = list(references(_top_level()[section]))
    while waiting:
        name = waiting.pop(0)
        if name not in found and name not in described:
            if name != "ModelEntry":  # its three forms are in prose
                found.append(name)
            waiting.extend(references(schema()["$defs"][name]))
    return found


def _section_page(name: str, links: Mapping[str, str]) -> str:
    field = _top_level()[name]
    label = section_label(name)
    own = [d for d in _own(name) if definition_labels()[d] in (label, f"config-{d.lower()}") and _home(d) == name]
    blocks = [inline(field.get("description", ""), links, label), "## Example", fence(EXAMPLES[name].strip(), "yaml")]
    if name in SEE_ALSO:
        target, title = SEE_ALSO[name]
        blocks.insert(1, f"See also: {link(title, target)}.")
    if name in LISTS:
        return page(label, f"`{name}`", *blocks, *_listing(name), *_parts(own, name, links))
    main, *others = own
    blocks += [_form(name, field), "## Settings", _settings(main, label, links)]
    return page(label, f"`{name}`", *blocks, *_parts(others, name, links))


def _parts(definitions: Sequence[str], name: str, links: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of further definitions of a section."""
    for other in definitions:
        yield f"({definition_labels()[other]})=\n## {_title(other, name)}"
        yield _prose(other, links)
        yield _settings(other, definition_labels()[other], links)


def _home(definition: str) -> str:
    """Return the first section that uses a definition: it is described there."""
    return next(name for name in SECTIONS if definition in _own(name))


def _form(name: str, field: Mapping[str, Any]) -> str:
    if field.get("type") != "object":
        return ""
    keys = {"tables": "The name of a table", "data": "A column name, a glob, or a kind such as `@numeric`"}
    return f"{keys[name]} is the key; its settings are the value."


def _prose(definition: str, links: Mapping[str, str]) -> str:
    return paragraphs(definition_of(definition).get("description", ""), links)


def _settings(definition: str, prefix: str, links: Mapping[str, str]) -> str:
    found = settings(definition_of(definition), definition_labels())
    texts = {setting.name: _description(setting.name, setting.description, setting.definitions) for setting in found}
    if missing := [setting.name for setting in found if not texts[setting.name]]:
        raise ValueError(f"settings of {definition} without a description: {', '.join(missing)}")
    from dataclasses import replace

    return setting_list([replace(s, description=texts[s.name]) for s in found], prefix, links)


def _description(name: str, description: str, definitions: tuple[str, ...]) -> str:
    """Return the description of a setting; without one, the first sentence of its definition's."""
    if description or not definitions:
        return description
    text: str = definition_of(definitions[0]).get("description", "")
    return text.partition(". ")[0].rstrip(".") + "." if text else ""


def _title(definition: str, section: str) -> str:
    """Return the names of the settings of a section that have this definition: ``csv``."""
    if definition in TITLES:
        return code(TITLES[definition])
    for outer in (*_own(section), None):
        properties = definition_of(outer).get("properties", {}) if outer else _top_level()
        for key, field in properties.items():
            if definition in references(field):
                return code(key)
    raise KeyError(definition)


def _listing(name: str) -> Iterator[str]:
    if name == "features":
        yield (
            "Each item is one op: a mapping of its name to its settings. A name or a list instead of the settings is "
            "the selection of columns. Without `features`, each column gets the default treatment of "
            f"{link('`auto`', 'op-auto')}."
        )
        yield "## Ops\n\n" + ", ".join(link(code(op), f"op-{op.replace('_', '-')}") for op in OPS.names())
        return
    yield (
        "Each item is a name, a mapping of a name to its parameters, or a mapping with `name` and `params`. `as` gives "
        "an entry its own label, so one model can be listed twice. `model:` takes a single entry. Without "
        "`models`, two that suit the task are trained."
    )
    yield "## Models\n\n" + ", ".join(link(code(m), f"model-{m.replace('_', '-')}") for m in MODELS.names())


def _general_page(links: Mapping[str, str]) -> str:
    properties = {key: field for key, field in _top_level().items() if key not in (*SECTIONS, "model")}
    found = settings({"properties": properties, "required": schema().get("required", ())}, definition_labels())
    label = section_label(GENERAL)
    return page(
        label,
        "General settings",
        "Settings at the top level of a configuration.",
        "## Example",
        fence(EXAMPLES[GENERAL].strip(), "yaml"),
        "## Settings",
        setting_list(found, label, links),
    )


def _index_page() -> str:
    rows = [[link(code(name), section_label(name)), what] for name, what in SECTIONS.items()]
    rows.insert(0, [link("general settings", section_label(GENERAL)), "Name, seed, device, engine and output folder."])
    toctree = fence("\n".join([GENERAL, *SECTIONS]), "{toctree}", {"hidden": ""})
    return page(
        "reference-configuration",
        "Configuration",
        "A configuration is one YAML file. Only `source` is required; every other section has defaults.",
        fence(EXAMPLES["index"].strip(), "yaml"),
        "## Sections",
        table(["section", "purpose"], rows),
        "## Values",
        "- **Sizes** are bytes, or text with a unit: `500MB`, `16GiB`.\n"
        "- **Durations** are text with a unit (`us`, `ms`, `s`, `min`, `h`, `d`, `w`): `90min`, `30d`.\n"
        "- **Times** are ISO dates or times, in UTC unless they name another zone: `2025-06-01`, `2025-06-01T12:00`.\n"
        "- **One name or a list**: where a list of names is expected, a single name will do.\n"
        "- **Environment**: `${ROWS:50000}` is replaced by the variable `ROWS`, or by `50000` if it is not set. The "
        "value is hidden in logs and outputs; write `${ROWS!}` for one that may be shown.\n"
        "- **Overrides**: `gpupipe run CONFIG --set seed=8 --set models.xgboost.params.max_depth=8`.",
        "An unknown key or a wrong value is exit code 2, with file, line and column, and the nearest known name. "
        "`gpupipe check` reports all of them at once.",
        "## In an editor",
        "`gpupipe schema` prints the JSON Schema that this reference is generated from. An editor with a YAML language "
        "server completes and explains settings with it:",
        fence("gpupipe schema -o gpupipe.schema.json", "sh"),
        fence("# yaml-language-server: $schema=gpupipe.schema.json\nsource: {path: customers.csv}", "yaml"),
        toctree,
    )
