"""Templates of the HTML pages: one frame, style and set of filters for the report and the monitor page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe import units
from gpupipe.names import count_noun
from gpupipe.report import text
from gpupipe.report.inline import bars_svg
from gpupipe.report.theme import COLORS, DARK, css_variables

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


@cache  # compiling the templates takes longer than filling them
def html_environment(*folders: Path) -> jinja2.Environment:
    """Return an environment that escapes every value, with the templates of `folders` and of the report.

    A page extends ``frame.html``, which needs a `title`.
    """
    import jinja2
    from markupsafe import Markup

    from gpupipe.report.template_cache import TemplateCache

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        bytecode_cache=TemplateCache(),
    )
    filters = (
        text.number,
        text.signed,
        text.spread,
        text.percent,
        text.share,
        text.at_scale,
        text.metric_title,
        text.task_title,
        text.threshold_rule_title,
        text.direction,
        text.params_text,
        units.format_duration,
        units.format_latency,
        units.format_size,
        units.format_rate,
        bars_svg,
        count_noun,
    )
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {
        "style": Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        "colors": css_variables(COLORS),
        "dark_colors": css_variables(DARK),
    }
    return environment


def _finalize(value: Any) -> Any:
    """Return text of the data with control characters as escapes; markup and numbers are returned unchanged."""
    return text.printable(value, keep="\n\t") if type(value) is str else value
