"""Writer of snapshots of RAPIDS' public API: ``python -m tools.gpu_api.snapshot OUT.json.gz``.

Run it with the Python of an environment that contains the packages. A GPU is not required to import them. Only the
standard library is used, so gpupipe's dependencies need not be installed there.

The file is JSON: ``versions`` of the packages; ``modules``, name to public names; ``classes``, name to members. Each
public name is described by one line: ``module NAME``, ``class NAME``, ``value``, ``property -> CLASS`` or
``def (PARAMETERS) -> CLASS``.
A bare ``def`` is a callable with unknown parameters. The result is omitted if it is unknown; alternatives are separated
by ``|``. The member ``()`` of a class is its constructor.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import inspect
import json
import pkgutil
import platform
import re
import sys
import types
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.gpu_api import signatures

# root package → its public modules; "*" stands for all without an underscore
MODULES = {
    "cudf": ["cudf", "cudf.api", "cudf.api.extensions", "cudf.api.types", "cudf.errors", "cudf.options", "cudf.pandas"],
    "cuml": ["cuml", "*"],
    "cupy": ["cupy", "cupy.cuda", "cupy.cuda.nvtx", "cupy.cuda.runtime", "cupy.linalg", "cupy.random"],
    "cupyx": ["cupyx", "cupyx.scipy.sparse", "cupyx.scipy.special"],
    "dask_cuda": ["dask_cuda", "dask_cuda.initialize"],
    "dask_cudf": ["dask_cudf"],
    "nvforest": ["nvforest"],
    "rmm": [
        "rmm",
        "rmm.allocators",
        "rmm.allocators.cupy",
        "rmm.allocators.numba",
        "rmm.allocators.torch",
        "rmm.mr",
        "rmm.pylibrmm.stream",
        "rmm.statistics",
    ],
    "xgboost": ["xgboost", "xgboost.dask"],
}
NOT_FOR_USE = {"tests", "testing", "benchmark", "internals", "health_checks", "thirdparty_adapters", "tsa"}
# Protocol attributes that other libraries look up in a class; other names with an underscore are private.
PROTOCOLS = {"__array__", "__arrow_c_stream__", "__cuda_array_interface__", "__dataframe__", "__dlpack__"}
SET_BY_INIT = re.compile(r"\bself\.(\w+)(?=\s*(?:=[^=]|:))")


# cuml.dask: parameters that it passes to the workers' classes itself, so the caller cannot, and classes with other
# names there.
GIVEN_BY_DASK = {"output_type"}
DESCENDED = {"Lasso": ("cuml.solvers", "CD"), "ElasticNet": ("cuml.solvers", "CD")}


def main(out: str) -> None:
    """Write the snapshot of the installed packages to the file `out`."""
    warnings.simplefilter("ignore")
    roots = [root for root in MODULES if importlib.util.find_spec(root)]
    modules = {name: module for root in roots for name in module_names(root) if (module := imported(name))}
    names, classes = describe(modules)
    versions = {"python": platform.python_version(), **{root: version_of(root) for root in roots}}
    text = json.dumps({"versions": versions, "modules": names, "classes": classes}, sort_keys=True, indent=0)
    # Without file name and time stamp, the same packages give the same bytes.
    with Path(out).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())
    print(f"{out}: {versions}, {len(names)} modules, {len(classes)} classes, {Path(out).stat().st_size:,} bytes")


def module_names(root: str) -> Iterator[str]:
    """Yield the modules of a root package: those listed, and for ``*`` its packages and direct modules."""
    yield from (name for name in MODULES[root] if name != "*")
    if "*" in MODULES[root]:
        for module in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
            parts = module.name.split(".")
            in_the_open = not NOT_FOR_USE & {*parts} and not any(part.startswith("_") for part in parts)
            if in_the_open and (module.ispkg or len(parts) == 2):
                yield module.name


def imported(name: str) -> types.ModuleType | None:
    """Return a module, or None with a message if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {name}: {error}", file=sys.stderr)
        return None


def version_of(root: str) -> str:
    """Return the version of a package's distribution, since not every module has a ``__version__``."""
    return metadata.version(metadata.packages_distributions()[root][0])


def public_names(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module and their values."""
    for name in dir(module):
        if not name.startswith("_") and hasattr(module, name):
            yield name, getattr(module, name)


def name_of(cls: type) -> str:
    """Return the qualified name of a class where it is defined, shared by all its public aliases."""
    return f"{cls.__module__}.{cls.__qualname__}"


def describe(modules: dict[str, types.ModuleType]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return the modules and the classes, including results of calls, with a line for each public name."""
    found = Classes(modules)
    names = {name: {n: line(value, found) for n, value in public_names(module)} for name, module in modules.items()}
    classes: dict[str, dict[str, str]] = {}
    while todo := found.by_name.keys() - classes.keys():
        classes.update({name: members(found.by_name[name], found) for name in sorted(todo)})
    return names, classes


class Classes:
    """Classes of the packages: the public ones, and those that their calls return."""

    def __init__(self, modules: dict[str, types.ModuleType]) -> None:
        self.roots = {name.partition(".")[0] for name in modules}
        values = [value for module in modules.values() for _, value in public_names(module)]
        self.by_name = {name_of(cls): cls for cls in values if self.is_ours(cls)}
        self.bases = {base for cls in self.by_name.values() for base in cls.__mro__[1:]}
        self.namesakes: dict[str, list[type]] = {}
        for cls in self.by_name.values():
            self.namesakes.setdefault(cls.__name__, []).append(cls)

    def is_ours(self, value: Any) -> bool:
        """Return whether `value` is a class of one of the packages."""
        return isinstance(value, type) and value.__module__.partition(".")[0] in self.roots

    def results(self, function: Any, owner: type | None) -> str:
        """Return ``" -> CLASS | CLASS"``, or ``""`` if unknown."""
        if type(function).__name__ == "ufunc":
            return " -> cupy.ndarray"
        found = [self.resolve(name, function, owner) for name in signatures.result_names(function)]
        if not found or None in found:
            return ""
        self.by_name.update({name_of(cls): cls for cls in found if cls})
        return f" -> {' | '.join(sorted({name_of(cls) for cls in found if cls}))}"

    def resolve(self, name: str, function: Any, owner: type | None) -> type | None:
        """Return the class for a name in the source or the documentation of `function`."""
        last = name.partition("[")[0].rpartition(".")[2]
        last = {"NDArray": "ndarray", "_ndarray_base": "ndarray"}.get(last, last)
        if owner and last in ("Self", owner.__name__):
            return owner
        same_name = self.namesakes.get(last, [])
        cls: Any = getattr(function, "__globals__", {}).get(last) or (same_name[0] if len(same_name) == 1 else None)
        # a base class does not determine which subclass is returned
        certain = self.is_ours(cls) and cls not in self.bases and not (owner and issubclass(owner, cls))
        return cls if certain else None


def line(value: Any, found: Classes) -> str:
    """Return the line for one name of a module."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if found.is_ours(value):
        return f"class {name_of(value)}"
    if not callable(value) or isinstance(value, type):
        return "value"
    return f"def {signatures.parameters_of(value) or ''}{found.results(value, None)}"


def members(cls: type, found: Classes) -> dict[str, str]:
    """Return the lines of a class, including inherited members."""
    names = [name for name in dir(cls) if not name.startswith("_") or name in PROTOCOLS]
    lines = {name: member(inspect.getattr_static(cls, name, None), cls, found) for name in names}
    return {**dict.fromkeys(attributes(cls), "property"), **lines, "()": f"def {constructor(cls) or ''}"}


def attributes(cls: type) -> Iterator[str]:
    """Yield the public attributes of instances: declared ones, and those that ``__init__`` sets."""
    for base in cls.__mro__[:-1]:
        declared = [*vars(base).get("__annotations__", {})]
        init: Any = vars(base).get("__init__")
        source = inspect.getsource(init) if signatures.has_source(init) else ""
        yield from (name for name in [*declared, *SET_BY_INIT.findall(source)] if not name.startswith("_"))


def member(value: Any, cls: type, found: Classes) -> str:
    """Return the line for one member of a class."""
    if isinstance(value, property):
        return f"property{found.results(value.fget, cls)}"
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not callable(function) or isinstance(function, type):
        return "property"
    parameters = signatures.parameters_of(function)
    if parameters and not isinstance(value, staticmethod):
        parameters = signatures.without_first(parameters)
    return f"def {parameters or ''}{found.results(function, cls)}"


def constructor(cls: type) -> str | None:
    """Return the parameters of a class, including those that it forwards as ``**kwargs`` to bases or workers."""
    text = signatures.parameters_of(cls)
    for base in cls.__mro__[1:-1]:
        init = vars(base).get("__init__")
        if text and text.endswith("**kwargs)") and isinstance(init, types.FunctionType):
            text = signatures.merged(text, signatures.without_first(signatures.parameters_of(init) or "()"))
    if text and text.endswith("**kwargs)") and cls.__module__.startswith("cuml.dask."):
        return signatures.merged(text, signatures.without(GIVEN_BY_DASK, on_the_workers(cls)))
    return text


def on_the_workers(cls: type) -> str:
    """Return the parameters of a cuml.dask class's worker class, mostly its single-GPU namesake."""
    _, _, family, *_ = cls.__module__.split(".")
    module, name = DESCENDED.get(cls.__name__, (f"cuml.{family}", cls.__name__))
    return signatures.parameters_of(getattr(importlib.import_module(module), name, None)) or "(**kwargs)"


if __name__ == "__main__":
    main(sys.argv[1])
