"""Check of the arguments of one call against a signature."""

from __future__ import annotations

import ast
import re
from inspect import Parameter, Signature

import numpy

from tools.gpu_api import signatures
from tools.gpu_api.api import Api, Thing

# Callables with meaningful extra keywords: column names, parameters of an estimator, forwarded arguments.
OPEN = {"agg", "aggregate", "apply", "assign", "initialize", "map_overlap", "map_partitions", "pipe", "set_params"}


def judge(called: Thing, call: ast.Call, api: Api) -> str:
    """Return the problem of the arguments of a call, or ``""``.

    ``**kwargs`` silently accepts a misspelled keyword, so only the `OPEN` callables may receive keywords that are not
    in their signatures.
    """
    if called.kind != "callable" or not called.parameters:
        return ""
    signature = closed(signatures.parse(called.parameters), called.name)
    problem = mismatch(signature, call)
    return problem and f"{called.name}(): {problem}{meant(problem, signature, api)}"


def closed(signature: Signature, name: str) -> Signature:
    """Return a signature without ``**kwargs`` if its named parameters are complete."""
    parameters = list(signature.parameters.values())
    named = [p for p in parameters if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    tells_all = any(not p.name.startswith("_") for p in named) and name.rpartition(".")[2] not in OPEN
    kept = [p for p in parameters if p.kind != Parameter.VAR_KEYWORD] if tells_all else parameters
    return Signature(kept)


def mismatch(signature: Signature, call: ast.Call) -> str:
    """Return why a call is invalid, or ``""``; arguments passed by ``*`` and ``**`` are unknown."""
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    partial = len(keywords) < len(call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args)
    plain = [None for arg in call.args if not isinstance(arg, ast.Starred)]
    try:
        (signature.bind_partial if partial else signature.bind)(*plain, **keywords)
    except TypeError as error:
        return str(error)
    return ""


def meant(problem: str, signature: Signature, api: Api) -> str:
    """Return a suggestion for a misspelled keyword."""
    misspelled = re.search(r"unexpected keyword argument '(\w+)'", problem)
    return api.hint(misspelled[1], signature.parameters) if misspelled else ""


def judge_numpy(name: str, call: ast.Call) -> str:
    """Return the problem of a call of ``xp`` if it is NumPy, or ``""``; `name` is CuPy's."""
    function = of_numpy(name)
    parameters = signatures.parameters_of(function) if callable(function) else None
    problem = mismatch(signatures.parse(parameters), call) if parameters else ""
    return problem and f"{name.replace('cupy', 'numpy', 1)}(): {problem}, and xp may be NumPy"


def numpy_has(module: str, name: str) -> bool:
    """Return whether NumPy has a name of a CuPy module."""
    return hasattr(of_numpy(module), name)


def of_numpy(name: str) -> object:
    """Return NumPy's counterpart of CuPy's dotted name, or None."""
    owner: object = numpy
    for part in name.split(".")[1:]:
        owner = getattr(owner, part, None)
    return owner
