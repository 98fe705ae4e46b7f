"""Dossier of a run in Markdown and HTML, in the order of Annex IV of Regulation (EU) 2024/1689, the AI Act.

It repeats sections of the model card and adds what the other files of the run record. The Markdown document is the
source; the HTML page is rendered from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import file_digest
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.manifest import CARD
from gpupipe.artifact.manifest import load as load_manifest
from gpupipe.errors import ArtifactError
from gpupipe.files.directory import AtomicDirectory
from gpupipe.files.disk import room_on
from gpupipe.files.file import write_text
from gpupipe.inference.model_history import model_history
from gpupipe.io.output_conflicts import ProtectedInput, require_no_conflict
from gpupipe.metrics import METRICS
from gpupipe.names import count_noun
from gpupipe.pipeline.comparison.comparison import DATA_STAGES
from gpupipe.pipeline.comparison.paired_metrics import metric_intervals
from gpupipe.pipeline.comparison.run_records import MALFORMED, RunRecord
from gpupipe.pipeline.records.card.markdown import code, prose, table
from gpupipe.pipeline.records.rundir import NAME as RUN_FILE
from gpupipe.pipeline.result import read_json
from gpupipe.report.render import CAPTIONS
from gpupipe.report.text import metric_title, number, params_text, threshold_rule_title
from gpupipe.tasks import SUPERVISED
from gpupipe.units import format_duration, format_size

if TYPE_CHECKING:
    from gpupipe.pipeline.result import Run

TEMPLATES = Path(__file__).parent / "templates"
TO_WRITE = "**To be written by a person:**"
N_GAPS = "\f"  # no name or message contains it: control characters are shown as escapes
MOST_ROWS = 200  # of a table
OF_CARD = ("Use", "Metrics", "Limits", "Data", "Input columns", "Parity", "Files and versions")
REWORDED = {  # sentences of a model card about its own file
    "`model` is this directory.": "`model` is the directory of the model.",
    "- A run records neither intended use nor licence: state them here. ": "",
    "Editing this file does not affect the model.\n": "",
}
CURVES = ("roc", "precision_recall", "calibration", "gains", "predicted_actual", "residuals")


def write_dossier(run: Run | str | os.PathLike[str], folder: str | os.PathLike[str]) -> Path:
    """Write the dossier of a finished run: material for its technical documentation.

    The parts are those of Annex IV of Regulation (EU) 2024/1689 (AI Act), with a table that assigns them to the
    subjects of SR 26-2, the guidance on model risk of US banking agencies. They are filled with what the run has
    recorded; what it cannot know is marked "to be written by a person". The dossier does not show conformity.

    Parameters
    ----------
    run : Run, str or Path
        A finished run, or its directory.
    folder : str or Path
        The directory to write: new or empty.

    Returns
    -------
    Path
        ``dossier.html``, which needs no other file; ``dossier.md`` and the plots that it shows are next to it.

    Raises
    ------
    ArtifactError
        If `run` is not the directory of a finished run, or its files are corrupt.
    ConfigError
        If `folder` is not empty, is inside the run, or cannot be written.

    Examples
    --------
    >>> import gpupipe as gp
    >>> from tempfile import TemporaryDirectory
    >>> settings = {"target": "Churn", "report": {"enabled": False}, "models": ["gaussian_nb"]}
    >>> with TemporaryDirectory() as folder:
    ...     run = gp.Pipeline({"generate": "churn", "rows": 500}, **settings).run(f"{folder}/run")
    ...     page = gp.write_dossier(run, f"{folder}/dossier")
    ...     page.with_suffix(".md").read_text().splitlines()[0]
    '# Technical documentation of `pipeline`'
    """
    (directory := AtomicDirectory(Path(folder))).require_place()
    record = RunRecord(run)
    require_no_conflict(folder, [ProtectedInput(record.path, "the run", folder="closed")], contents=[])
    try:
        files = (record.run.path / "plots").glob("*.svg")
        plots = {path.stem: path.read_text(encoding="utf-8") for path in sorted(files) if _kind(path.stem) in CURVES}
        text = _render(record, sorted(plots, key=lambda stem: CURVES.index(_kind(stem))))
    except MALFORMED as error:
        what = f"malformed records of the run: {type(error).__name__}: {error}"
        raise ArtifactError(what, where=record.path, fix="run the pipeline again") from error
    page = _render_html(text, record.name, plots)
    with room_on(directory.final.parent, "free disk space, or name another folder"), directory:
        (directory.path / "plots").mkdir()
        for stem, svg in plots.items():
            write_text(directory.path / f"plots/{stem}.svg", svg)
        write_text(directory.path / "dossier.md", text)
        write_text(directory.path / "dossier.html", page)
    return directory.final / "dossier.html"


def _kind(stem: str) -> str:
    """Return the kind of a plot; those of several targets are numbered."""
    return stem.partition("-")[0]


def _render(record: RunRecord, plots: Sequence[str]) -> str:
    """Return the dossier as Markdown; `plots` are the stems of its plots."""
    import jinja2

    path, model = record.run.path, record.run.path / "model"
    manifest, settings = load_manifest(model)[0], record.settings
    slices = record.run.document.get("slices", {"columns": {}})["columns"].values()
    rule, reasons = settings["evaluate"]["threshold"], manifest.get("reason_codes")
    stated = [] if reasons is None else [*reasons["columns"], *reasons["exclude"]]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # every value is escaped as Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown: dict[str, Callable[..., str]] = {
        "name": code,
        "names": lambda names: ", ".join(map(code, names)),
        "text": lambda value: prose(str(value), 4_000),
        "plain": lambda value: "" if value is None else str(value),
        "sentences": lambda texts: prose("; ".join(texts), 4_000),
        "reason": lambda reason: f"{code(reason['code'])} {prose(reason['text'])}",
        "time": lambda time: f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "number": lambda value: "" if value is None else number(value),
        "params": lambda params: prose(params_text({k: v for k, v in params.items() if v is not None}), 4_000),
        "metric_title": metric_title,
        "count_noun": count_noun,
        "format_duration": format_duration,
        "format_size": format_size,
    }
    environment.filters |= shown
    text = environment.get_template("dossier.md.jinja").render(
        shown,
        record=record,
        manifest=manifest,
        settings=settings,
        evaluate=settings["evaluate"],
        to_write=TO_WRITE,
        n_gaps=N_GAPS,
        now=datetime.now(UTC),
        tabulate=_tabulate,
        card=_card_sections(model / CARD),
        of_card=OF_CARD,
        trained_on=read_json(model / "parity.json")["trained_on"] if "parity.json" in manifest["files"] else None,
        ops=[next(iter(op)) if isinstance(op, dict) else op for op in settings["features"]],
        threshold=f"chosen on held-out rows for the {threshold_rule_title(rule)}" if isinstance(rule, str) else "fixed",
        features=read_json(model / "features.json"),
        data_notes=chain.from_iterable(own["notes"] for own in record.stages if own["name"] in DATA_STAGES),
        reasons=reasons,
        uncoded=[name for name in record.inputs if name not in stated],
        images=[f"![{CAPTIONS[_kind(stem)]}](plots/{stem}.svg)" for stem in plots],
        files=_files(path),
        metrics=_metric_rows(record),
        worse=[f"{own['column']} = {own['level']}" for own in chain.from_iterable(slices) if own["is_worse"]],
        generations=model_history(path)["generations"],
        drift=read_json(model / "drift.json") if "drift.json" in manifest["files"] else None,
    )
    text = re.sub(r"^(#{2,4} .*)$", r"\n\1\n", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).replace(N_GAPS, str(text.count(TO_WRITE))).strip() + "\n"


def _tabulate(rows: Iterable[Any], *columns: tuple[str, Any, Callable[[Any], str]], n_left: int = 9) -> str:
    """Return a table of records; a column is its heading, the key of its values, and their format."""
    cells = [[show(row[key]) for _, key, show in columns] for row in islice(rows, MOST_ROWS)]
    return table([head for head, _, _ in columns], cells, min(n_left, len(columns)))


def _card_sections(path: Path) -> dict[str, str]:
    """Return the sections of a model card by title; its summary is that of ``""``."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for old, new in REWORDED.items():
        text = text.replace(old, new)
    summary, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    absent = dict.fromkeys(OF_CARD, "The model card has no such section.")
    found = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    return {**absent, **found, "": re.sub(r"\A.*?^# .*?$", "", summary, flags=re.DOTALL | re.MULTILINE).strip()}


def _metric_rows(record: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return title, better side, value and 95% interval of each metric."""
    intervals: Mapping[str, tuple[float, float]] = {}
    with suppress(ArtifactError, *MALFORMED):
        intervals = metric_intervals(record.test_rows(), record.metrics) if record.goal.tasks <= SUPERVISED else {}
    rows = []
    for name, value in record.metrics.items():
        if name in METRICS:
            ends = " to ".join(map(number, intervals.get(name, ()))) or "not computed"
            better = "higher" if METRICS.get(name).greater_is_better else "lower"
            rows.append((metric_title(name), better, number(value), ends))
    return rows


def _files(folder: Path) -> list[tuple[str, str, str]]:
    """Return name, SHA-256 and state of each file of a run, compared with the record of the run."""
    recorded = read_json(folder / RUN_FILE)["files"] if (folder / RUN_FILE).is_file() else {}
    found = {}
    for path in [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]:
        with path.open("rb") as file:
            found[str(path.relative_to(folder))] = file_digest(file, "sha256").hexdigest()
    rows = []
    for name in sorted({*found, *recorded} - {RUN_FILE}):
        expected, actual = recorded.get(name, {}).get("sha256"), found.get(name, "")
        state = "as recorded" if expected == actual else "added later" if expected is None else "changed"
        rows.append((name, actual, state if actual else "missing"))
    return rows


def _render_html(text: str, name: str, plots: Mapping[str, str]) -> str:
    """Return the dossier as an HTML page that needs no other file; HTML in the Markdown is shown as text."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    from gpupipe.report.environment import html_environment, inline_svg

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    headings = [i for i, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    for i in headings:
        tokens[i].attrSet("id", f"part-{i}")

    def image(_: Any, tokens: Sequence[Any], i: int, *__: Any) -> str:
        stem, caption = Path(str(tokens[i].attrGet("src"))).stem, tokens[i].content
        shown = f"<b>{Markup.escape(caption)}</b>"
        return f'<span class="shown">{shown}{inline_svg(plots[stem], stem, caption)}</span>' if stem in plots else shown

    parser.add_render_rule("image", image)
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    intro, start, body = parser.renderer.render(tokens, parser.options, {}).partition("<h2")
    return (
        html_environment(TEMPLATES)
        .get_template("dossier.html")
        .render(
            title=f"Technical documentation of {name}",
            headings=[(f"part-{i}", tokens[i + 1].content) for i in headings],
            intro=Markup(intro),
            body=Markup(start + body),
        )
    )
