"""Model card, README.md of a model directory: what a person who receives the model reads first.

The sections follow Mitchell et al., "Model Cards for Model Reporting", FAT* 2019, with what a run records of them. The
header is the metadata of model cards on the Hugging Face Hub, which has no task for models without a target, or for
rankings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.manifest import CARD, load
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import ColumnImportance
from gpupipe.names import count_noun, enumerate_names
from gpupipe.pipeline.records.card import column_facts, quality_facts
from gpupipe.pipeline.records.card.example import example_row, prediction_calls
from gpupipe.pipeline.records.card.facts import CardFacts
from gpupipe.pipeline.records.card.file_table import file_table, libraries
from gpupipe.pipeline.records.card.split_record import SplitRecord
from gpupipe.report import text
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.sentences import comparison_sentence, evaluation_basis
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.units import KIB, format_size

if TYPE_CHECKING:
    import jinja2
    import jinja2.runtime

MOST_BYTES = 64 * KIB
SECTION_END = "\f"  # no name or message contains it: control characters are shown as escapes


def write_card(
    folder: Path,
    job: Job,
    outcome: LeaderboardResult,
    split: SplitRecord,
    importances: Sequence[ColumnImportance],
    coverage: Sequence[IntervalCoverage | None],
    parity: Verification | None,
) -> None:
    """Write README.md into the model directory `folder`, which is complete; parameters are those of `CardFacts`."""
    facts = CardFacts(
        job=job,
        outcome=outcome,
        manifest=load(folder)[0],
        split=split,
        importances=importances,
        coverage=coverage,
        parity=parity,
    )
    (folder / CARD).write_text(render_card(facts), encoding="utf-8")


def render_card(facts: CardFacts) -> str:
    """Return the text of the card, at most `MOST_BYTES` long: what exceeds them is dropped from the end, by section."""
    functions = (
        example_row,
        prediction_calls,
        file_table,
        quality_facts.metric_table,
        quality_facts.slice_table,
        quality_facts.scores,
        quality_facts.rare_classes,
        quality_facts.sparse_columns,
        quality_facts.new_levels,
        quality_facts.parity_table,
        column_facts.source_label,
        column_facts.further_tables,
        column_facts.class_table,
        column_facts.importance_texts,
        column_facts.column_table,
        column_facts.further_importances,
    )
    rendered = _template().render(
        {function.__name__: partial(function, facts) for function in functions},
        facts=facts,
        job=facts.job,
        config=facts.job.config,
        split=facts.job.config.split,
        goal=facts.goal,
        metric=facts.job.metrics[0],
        outcome=facts.outcome,
        best=facts.outcome.leaderboard[0],
        training=facts.outcome.champion.features.training,
        manifest=facts.manifest,
        record=facts.split,
        folds=facts.split.n_folds,
        parity=facts.parity,
        libraries=libraries(facts),
        section_end=SECTION_END,
    )
    card = ""
    for section in rendered.split(SECTION_END):
        lines = re.sub(r"\n{3,}", "\n\n", section).strip("\n")
        if len(f"{card}\n{lines}\n".encode()) > MOST_BYTES:
            break
        if lines:
            card = f"{card}\n{lines}\n" if card else f"{lines}\n"
    return card


@cache  # compiling the template takes longer than filling it
def _template() -> jinja2.Template:
    """Return the template; its filters for names and messages hide the secrets of the run in `facts`."""
    import jinja2

    from gpupipe.report.template_cache import TemplateCache

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # the filters `name` and `text` escape Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=TemplateCache(),
    )
    filters = (
        text.metric,
        text.metric_title,
        text.task_title,
        text.threshold_rule_title,
        text.column_value,
        format_size,
        count_noun,
        enumerate_names,
        evaluation_basis,
        comparison_sentence,
        column_facts.rule_text,
    )
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters["shell_quote"] = shlex.quote
    for name in ("name", "names", "text", "shown"):
        environment.filters[name] = jinja2.pass_context(partial(_call_facts, name))
    return environment.get_template("card.md.jinja")


def _call_facts(method: str, context: jinja2.runtime.Context, *arguments: Any) -> str:
    return str(getattr(context["facts"], method)(*arguments))
