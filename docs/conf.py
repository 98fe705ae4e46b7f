"""Sphinx configuration of the documentation."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))
# Scripts of the gallery run `gpupipe`: that of this environment, which may not be active.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from gpupipe.version import __version__  # noqa: E402
from gpupipe_reference.links import GITHUB  # noqa: E402

project = "gpupipe"
author = "The gpupipe developers"
copyright = "The gpupipe developers"
release = __version__
version = release

extensions = [
    "gpupipe_reference",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]

# Sources
exclude_patterns = ["_ext", "gallery", "plugin_template", "**/README.rst", "**/GALLERY_HEADER.rst"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
# Types in docstrings are prose, such as "array of float32": only names of gpupipe are checked.
nitpick_ignore_regex = [("py:(class|obj|meth|func|attr|mod|data)", r"(?!gpupipe\.).*")]
smartquotes_action = "D"  # dashes: of parameters in docstrings

# Docstrings
default_role = "code"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = False
napoleon_preprocess_types = False

# HTML
html_theme = "pydata_sphinx_theme"
html_title = f"gpupipe {release}"
html_static_path = ["_static"]
html_css_files = ["gpupipe.css"]
html_js_files = ["names.js"]
html_search_scorer = str(DOCS / "_ext" / "search_scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_context = {
    "github_user": "gpupipe",
    "github_repo": "gpupipe",
    "github_version": "main",
    "doc_path": "docs",
    "default_mode": "auto",
}
html_theme_options = {
    "icon_links": [{"name": "GitHub", "url": GITHUB, "icon": "fa-brands fa-github"}],
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "back_to_top_button": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars: dict[str, list[str]] = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Gallery: scripts that are run by the build; `make docs-fast` shows them without their results.
if list((DOCS / "gallery").glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": ["gallery"],
        "gallery_dirs": ["auto_gallery"],
        "filename_pattern": r"plot_",
        "plot_gallery": os.environ.get("GPUPIPE_DOCS_GALLERY", "1") == "1",
        "abort_on_example_error": True,
        "backreferences_dir": None,
        "download_all_examples": False,
        "min_reported_time": 1,
        "show_memory": False,
        "write_computation_times": False,
        "show_signature": False,
        "within_subsection_order": "FileNameSortKey",
        "parallel": 2,
        "reset_modules": ("matplotlib", "gpupipe_reference.gallery.reset_start_method"),
    }

warnings.filterwarnings("ignore", category=DeprecationWarning, module="sphinx")


def linkcode_resolve(domain: str, info: dict[str, Any]) -> str | None:
    """Return the address of an object's source in the repository, or None for what is not gpupipe's."""
    if domain != "py" or not info["module"]:
        return None
    value: Any = import_module(info["module"])
    try:
        for name in info["fullname"].split("."):
            value = getattr(value, name)
        function: Any = value.fget if isinstance(value, property) else value
        value = inspect.unwrap(function)
        module = sys.modules[value.__module__]
        lines, start = inspect.getsourcelines(value)
    except (AttributeError, KeyError, OSError, TypeError):
        return None
    package = module.__name__.partition(".")[0]
    if package not in ("gpupipe", "gpupipe_kernels"):
        return None
    folder = "kernels/" if package == "gpupipe_kernels" else ""
    path = module.__name__.replace(".", "/") + ("/__init__" if hasattr(module, "__path__") else "")
    return f"{GITHUB}/blob/main/{folder}{path}.py#L{start}-L{start + len(lines) - 1}"
