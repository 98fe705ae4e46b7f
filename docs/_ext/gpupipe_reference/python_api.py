"""Pages of the Python API: one for each public name, an index by purpose, and the errors with their exit codes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import gpupipe
from gpupipe import errors, plugins
from gpupipe_reference.markdown import code, fence, inline, page, table

# Members that a plug-in implements; the other methods of these classes are internal.
PLUGINS: dict[str, tuple[str, ...]] = {
    "PluginOp": ("expand",),
    "PluginModel": ("make_estimator", "to_arrays", "from_arrays"),
    "PluginMetric": (),
}
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Runs": (
        "Train, evaluate, list and compare models.",
        (
            "Pipeline",
            "run",
            "Run",
            "load_run",
            "list_runs",
            "compare_runs",
            "RunComparison",
            "write_dossier",
            "reproduce_run",
            "Reproduction",
            "Config",
            "load_config",
        ),
    ),
    "Models": (
        "Load a trained model and predict.",
        (
            "Model",
            "load_model",
            "predict_into_table",
            "Scorer",
            "load_scorer",
            "UntrustedModel",
            "Explanation",
            "DriftReport",
            "Evaluation",
            "update_model",
            "ModelUpdate",
            "diff",
            "ModelDiff",
            "PredictionWarning",
            "RunWarning",
        ),
    ),
    "Validation": ("Split rows over time for scikit-learn.", ("GroupTimeSplit",)),
    "Features": ("Features without models, for scikit-learn or for a training loop.", ("FeatureProgram", "kernel")),
    "Tensors": (
        "Hand the matrix to other libraries without a copy.",
        ("TensorBatch", "Batches", "to_torch", "to_jax", "to_tensorflow", "from_dlpack"),
    ),
}


def api_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each page by its path in the reference.

    Raises
    ------
    ValueError
        If a public name is in no group.
    """
    grouped = {name for _, names in GROUPS.values() for name in names}
    if missing := set(public_names()) - grouped - {error.__name__ for error in error_classes()}:
        raise ValueError(f"public names that no group of {__name__} has: {sorted(missing)}")
    pages = {f"api/{file_stem(name)}.md": _object_page(name) for name in sorted(grouped)}
    return pages | {"api/plugins.md": _plugins_page(), "api/index.md": _index_page(), "errors.md": _errors_page()}


def public_names() -> list[str]:
    """Return the names of ``gpupipe.__all__``, without its version."""
    return [name for name in dir(gpupipe) if not name.startswith("__")]


def error_classes() -> list[type[errors.GpupipeError]]:
    """Return the error classes, each after its base."""
    found: list[type[errors.GpupipeError]] = []
    waiting: list[type[errors.GpupipeError]] = [errors.GpupipeError]
    while waiting:
        error = waiting.pop(0)
        found.append(error)
        own = [each for each in error.__subclasses__() if each.__module__ == errors.__name__]
        waiting = own + waiting
    return found


def file_stem(name: str) -> str:
    """Return the file name and label of a public name: some file systems take ``run`` and ``Run`` for one."""
    return f"{name}_function" if any(name != other and name == other.lower() for other in public_names()) else name


def _object_page(name: str) -> str:
    value = getattr(gpupipe, name)
    directive = "autofunction" if not inspect.isclass(value) else "autoexception" if _is_warning(value) else "autoclass"
    # scikit-learn adds the excluded method, whose text refers to pages that are not here
    members = "\n   :members:\n   :exclude-members: set_fit_request"
    options = members if directive == "autoclass" else ""
    text = f".. {directive}:: gpupipe.{name}{options}"
    if name == "kernel":
        text += "\n\n.. autoexception:: gpupipe_kernels.user.kernel.KernelError"
    return page(f"api-{file_stem(name)}", code(name), fence(text, "{eval-rst}"))


def _is_warning(value: type) -> bool:
    return issubclass(value, BaseException)


def _plugins_page() -> str:
    if sorted(PLUGINS) != sorted(plugins.__all__):
        raise ValueError(
            f"public names of gpupipe.plugins that {__name__} lacks: {set(plugins.__all__) ^ set(PLUGINS)}"
        )
    classes = [
        f"## {code(name)}\n\n"
        + fence(
            f".. autoclass:: gpupipe.plugins.{name}" + (f"\n   :members: {', '.join(members)}" if members else ""),
            "{eval-rst}",
        )
        for name, members in PLUGINS.items()
    ]
    return page("api-plugins", "gpupipe.plugins", inspect.cleandoc(plugins.__doc__ or ""), *classes)


def _index_page() -> str:
    blocks = []
    for title, (what, names) in GROUPS.items():
        rows = [[f"[{code(f'gpupipe.{name}')}](#api-{file_stem(name)})", inline(_summary(name))] for name in names]
        blocks.append(f"## {title}\n\n{what}\n\n{table(['name', 'purpose'], rows)}")
    rows = [
        [f"[{code('gpupipe.plugins')}](#api-plugins)", "Feature ops, models, readers and metrics of other packages."]
    ]
    blocks.append(f"## Plug-ins\n\nExtend gpupipe.\n\n{table(['name', 'purpose'], rows)}")
    entries = "\n".join([*(file_stem(name) for _, group in GROUPS.values() for name in group), "plugins"])
    return page(
        "reference-api",
        "Python API",
        fence("import gpupipe as gp", "python"),
        "Names are imported on first use: `import gpupipe` imports no array library and no GPU library. Errors are in "
        "[Errors and exit codes](#reference-errors).",
        *blocks,
        fence(entries, "{toctree}", {"hidden": "", "maxdepth": "1"}),
    )


def _summary(name: str) -> str:
    return inspect.cleandoc(getattr(gpupipe, name).__doc__ or "").partition("\n\n")[0]


def _errors_page() -> str:
    rows = []
    for error in error_classes():
        depth = len([base for base in error.__mro__ if issubclass(base, errors.GpupipeError)]) - 1
        number = "128 + signal" if error is errors.StoppedError else str(error.exit_code)
        summary = inspect.cleandoc(error.__doc__ or "").partition("\n\n")[0]
        rows.append(
            [
                number,
                "&nbsp;" * 4 * depth + f"[{code(error.__name__)}](#error-{error.__name__.lower()})",
                inline(summary),
            ]
        )
    classes = [
        f"(error-{error.__name__.lower()})=\n### {code(error.__name__)}\n\n"
        + fence(f".. autoexception:: gpupipe.{error.__name__}", "{eval-rst}")
        for error in error_classes()
    ]
    return page(
        "reference-errors",
        "Errors and exit codes",
        "An error is one screen: what is wrong, where, and what to do; `--debug` shows the traceback. Commands exit "
        "with 0, or with the code of the error. In Python, errors are classes of `gpupipe`, all derived from "
        "`GpupipeError`, with the attributes `what`, `where`, `fix` and `names`.",
        table(["exit code", "class", "meaning"], rows),
        "## Classes",
        *classes,
    )
