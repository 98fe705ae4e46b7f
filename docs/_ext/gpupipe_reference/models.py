"""Pages of the models: one for each, and an index by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN
from gpupipe.backends.gpu.translation import GpuEstimator, ParameterRule
from gpupipe.models import MODELS, ModelSettings
from gpupipe.models.best import Best
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.tasks import Task
from gpupipe_reference.links import GITHUB, documentation_url
from gpupipe_reference.markdown import code, fence, inline, link, page, paragraphs, table
from gpupipe_reference.ops import split_docstring
from gpupipe_reference.schema_text import SettingText, definition_of, flow, settings
from gpupipe_reference.setting_list import setting_list

# module of settings below gpupipe.models → title and description in the index
FAMILIES = {
    "linear": ("Linear models", "Fast, and their coefficients can be read."),
    "scikit_learn.forest": ("Random forests", "Averages of deep trees; little to tune."),
    "scikit_learn.hist_boosting": ("Histogram gradient boosting", "scikit-learn's, on the CPU; often good scores."),
    "xgboost": ("XGBoost", "Gradient boosting on the CPU and the GPU."),
    "catboost": ("CatBoost", "Gradient boosting with statistics of categories; needs an extra."),
    "lightgbm": ("LightGBM", "Gradient boosting with leaf-wise trees; needs an extra."),
    "scikit_learn.neighbors": ("Nearest neighbours", "Predict from the most similar training rows."),
    "scikit_learn.bayes": ("Naive Bayes", "A quick baseline."),
    "scikit_learn.svm": ("Support vector machines", "A linear classifier with calibrated probabilities."),
    "neural": ("Neural networks", "Embeddings and networks for tables, trained by PyTorch."),
    "best": ("Ensembles", "Many models, combined by weights that are chosen on held-out rows."),
    "scikit_learn.estimator": ("Your own estimator", "Any scikit-learn estimator that can be exported safely."),
    "scikit_learn.cluster": ("Clustering", "Groups of rows, without a target."),
    "scikit_learn.decomposition": ("Embeddings", "A few columns that keep most of the variance, without a target."),
}
VIEWS = {
    "dense": "`dense`: scaled and imputed numbers, one-hot or target-encoded categories",
    "codes": "`codes`: numbers as they are, categories as integer ids, split as categories",
    "embedding": "`embedding`: scaled and imputed numbers, then categories as ids to embed",
    "combined": "`combined`: the columns of all of these, from which each member of an ensemble reads its own",
}
LIBRARIES = {
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "cuml": "cuML",
    "gpupipe": "gpupipe on CuPy",
}


def model_pages(links: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each page by its path in the reference.

    Raises
    ------
    ValueError
        If a model belongs to a family without a title, or a parameter has no description.
    """
    families = {family: members(family) for family in FAMILIES}
    listed = [name for names in families.values() for name in names]
    if sorted(listed) != sorted(MODELS.names()):
        raise ValueError(f"each model belongs to a family of {__name__}: {sorted(set(MODELS.names()) ^ set(listed))}")
    pages = {f"models/{name}.md": model_page(name, model, links) for name, model in MODELS.items()}
    return pages | {"models/index.md": _index_page(families)}


def members(family: str) -> list[str]:
    """Return the models of a family: those of one module of settings below ``gpupipe.models``."""
    homes = {name: model.__module__.removeprefix("gpupipe.models.") for name, model in MODELS.items()}
    return [name for name, home in homes.items() if home.replace("settings.", "").removesuffix(".settings") == family]


def model_label(name: str) -> str:
    """Return the label of a model's page."""
    return f"model-{name.replace('_', '-')}"


def model_page(name: str, model: type[ModelSettings], links: Mapping[str, str]) -> str:
    """Return the page of a model.

    Raises
    ------
    ValueError
        If a parameter has no description.
    """
    label = model_label(name)
    summary, rest, _ = split_docstring(model)
    tasks = [task for task in get_args(Task) if task in model.tasks]
    estimators = estimator_names(model, tasks)
    found = settings(definition_of(model.__name__), {})
    missing = [setting.name for setting in found if not setting.description]
    if missing:
        raise ValueError(f"parameters of the model {name} without a description: {', '.join(missing)}")
    file = model.__module__.replace(".", "/") + ".py"
    return page(
        label,
        code(name),
        inline(summary, links, label),
        paragraphs(rest, links, label),
        _fact_table(_facts(model, tasks, estimators)),
        _yaml(name, found),
        "## Parameters" if found else "It has no parameters.",
        setting_list(found, label, links),
        _origin(estimators),
        _gpu_limits(estimators),
        f"Source: [{code(file)}]({GITHUB}/blob/main/{file})",
    )


def estimator_names(model: type[ModelSettings], tasks: Sequence[Task]) -> list[str]:
    """Return the classes that a model is trained with, of all its tasks."""
    unvalidated = model.model_construct()
    return list(dict.fromkeys(unvalidated.estimator_name(task) for task in tasks))


def _facts(model: type[ModelSettings], tasks: Sequence[Task], estimators: Sequence[str]) -> list[list[str]]:
    view = VIEWS.get(model.view) if isinstance(model.view, str) else "the setting `view`"
    return [
        ["tasks", ", ".join(map(code, tasks))],
        ["view", view or ""],
        ["nulls", "used as they are" if model.accepts_missing else "imputed by the feature program"],
        ["sample and class weights", "yes" if model.takes_sample_weight else "no"],
        ["on the CPU", _cpu(model, estimators)],
        ["on the GPU", _gpu(model, estimators)],
    ]


def _fact_table(facts: Sequence[Sequence[str]]) -> str:
    rows = "\n".join(f"* - {name}\n  - {value}" for name, value in facts)
    return fence(rows, "{list-table}", {"stub-columns": "1"})


def _cpu(model: type[ModelSettings], estimators: Sequence[str]) -> str:
    if issubclass(model, NeuralSettings):
        return "PyTorch"
    if model is Best:
        return "each member by its own library"
    classes = [f"[{code(name)}]({url})" for name in estimators if (url := documentation_url(name))]
    if not classes:
        return "scikit-learn, or a library with its interface"
    return f"{'XGBoost' if estimators[0].startswith('XGB') else 'scikit-learn'}: {', '.join(classes)}"


def _gpu(model: type[ModelSettings], estimators: Sequence[str]) -> str:
    if issubclass(model, NeuralSettings):
        return "PyTorch with CUDA"
    if model is Best:
        return "each member by its own library; models that the GPU cannot train are not in the portfolio"
    rows = {name: ESTIMATORS[name] for name in estimators if name in ESTIMATORS}
    if not rows:
        reason = NO_TWIN[estimators[0]]
        return f"falls back to the CPU: {inline(reason.what)} ({inline(reason.fix)})"
    classes = list(dict.fromkeys(row.path.partition(":")[2] for row in rows.values()))
    library = LIBRARIES[next(iter(rows.values())).library]
    return f"{library}: {', '.join(map(code, classes))}"


def _yaml(name: str, found: Sequence[SettingText]) -> str:
    params: dict[str, Any] = {"estimator": {"use": "my_models.py:make", "params": {"depth": 5}}}.get(name, {})
    if not params:
        defaults = definition_of(MODELS.get(name).__name__)["properties"]
        simple = [s.name for s in found if isinstance(defaults[s.name].get("default"), int | float)]
        params = {key: defaults[key]["default"] for key in simple[:2]}
    return fence(f"models:\n  - {name}\n  - {name}: {flow(params)}" if name != "estimator" else
                 f"models:\n  - {name}: {flow(params)}", "yaml")  # fmt: skip


def _origin(estimators: Sequence[str]) -> str:
    pages = [f"[{name}]({documentation_url(name)})" for name in estimators if documentation_url(name)]
    if not pages:
        return ""
    return f"Parameters have the names and meanings of the library's own class: {', '.join(pages)}."


def _gpu_limits(estimators: Sequence[str]) -> str:
    """Return the table of parameters that a GPU treats in another way, and notes."""
    rows: dict[str, list[str]] = {}
    notes: list[str] = []
    for name in estimators:
        if name in ESTIMATORS:
            rows |= {key: [code(key), text] for key, text in _limits(ESTIMATORS[name])}
            notes += ESTIMATORS[name].notes
    blocks = []
    if rows:
        blocks.append(table(["parameter", "on the GPU"], rows.values()))
    blocks += [f"- {inline(note)}" for note in dict.fromkeys(notes)]
    return "\n\n".join(["## Differences on a GPU", *blocks]) if blocks else ""


def _limits(row: GpuEstimator) -> list[tuple[str, str]]:
    internal = {"random_state", "n_jobs", "copy_X", "class_weight"}
    found = ((name, _limit(rule)) for name, rule in row.params.items() if name not in internal)
    return [(name, text) for name, text in found if text]


def _limit(rule: ParameterRule) -> str:
    if rule.allowed is not None:
        values = ", ".join(code(flow(value)) for value in rule.allowed)
        return f"only {values}; other values fall back to the CPU ({inline(rule.why)})"
    if rule.refused_types:
        return f"some values fall back to the CPU ({inline(rule.why)})"
    return f"ignored: {inline(rule.why)}" if not rule.name else ""


def _index_page(families: Mapping[str, Sequence[str]]) -> str:
    blocks = []
    for family, names in families.items():
        title, what = FAMILIES[family]
        rows = []
        for name in names:
            model = MODELS.get(name)
            tasks = [task for task in get_args(Task) if task in model.tasks]
            view = code(model.view) if isinstance(model.view, str) else "setting"
            gpu = _gpu_short(model, estimator_names(model, tasks))
            rows.append([link(code(name), model_label(name)), ", ".join(tasks), view, gpu])
        blocks.append(f"## {title}\n\n{what}\n\n{table(['model', 'tasks', 'view', 'on a GPU'], rows)}")
    return page(
        "reference-models",
        "Models",
        f"{len(MODELS.names())} models, each listed by name under `models:`. Parameters have the names and, "
        "with `defaults: library`, the values of scikit-learn or XGBoost; the few other defaults are stated with their "
        "reason. In a run, parameters that are not stated have the tuned values of the model, if it has any. No model "
        "has been run on a GPU yet.",
        "\n".join(
            ["The *view* is the form of the features that a model reads:\n", *(f"- {view}" for view in VIEWS.values())]
        ),
        *blocks,
        fence("\n".join(MODELS.names()), "{toctree}", {"hidden": "", "maxdepth": "1"}),
    )


def _gpu_short(model: type[ModelSettings], estimators: Sequence[str]) -> str:
    if issubclass(model, NeuralSettings):
        return "PyTorch"
    if model is Best:
        return "each member by its own library"
    return next((LIBRARIES[ESTIMATORS[name].library] for name in estimators if name in ESTIMATORS), "trains on the CPU")
