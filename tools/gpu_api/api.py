"""Lookup in a snapshot of RAPIDS' public API.

>>> api = Api.of_release("26.10")
>>> api.has("cuml.linear_model:LogisticRegression")
True
>>> api.parameters("cuml.linear_model:Lasso")
{'alpha', 'fit_intercept', ...}
"""

from __future__ import annotations

import gzip
import inspect
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpupipe.errors import did_you_mean
from tools.gpu_api import signatures

SNAPSHOTS = Path(__file__).parent / "snapshots"
RELEASES = ("26.8", "26.10")  # oldest and newest release that the extras allow


@dataclass(frozen=True)
class Thing:
    """The value of an expression: a module, a class, an instance of a class, or a callable.

    ``parameters`` is the text of a callable's parameters, ``""`` if unknown; ``results`` are the classes that a call
    may return, empty if unknown. ``shared`` marks a name of CuPy that is reached through ``xp`` and must exist in NumPy
    too.
    """

    kind: Literal["module", "class", "instance", "callable"]
    name: str
    parameters: str = ""
    results: tuple[str, ...] = ()
    shared: bool = False


class Api:
    """Public names of one release.

    Parameters
    ----------
    path : Path
        A file written by ``snapshot.py``.
    """

    def __init__(self, path: Path) -> None:
        content = json.loads(gzip.decompress(path.read_bytes()))
        self.versions: dict[str, str] = content["versions"]
        self.modules: dict[str, dict[str, str]] = content["modules"]
        self.classes: dict[str, dict[str, str]] = content["classes"]
        self.roots = {name.partition(".")[0] for name in self.modules}

    @classmethod
    def of_release(cls, release: str) -> Api:
        """Return the committed snapshot of a release such as ``"26.10"``."""
        return cls(SNAPSHOTS / f"rapids-{release}.json.gz")

    def has(self, path: str) -> bool:
        """Return whether ``"module:Name"`` or ``"module:Class.member"`` exists."""
        return isinstance(self.find(path), tuple)

    def parameters(self, path: str) -> set[str] | None:
        """Return the parameter names of the callable at `path`; None if it takes any, or if they are unknown.

        Raises
        ------
        KeyError
            If it does not exist; the message suggests a similar name.
        """
        found = self.find(path)
        if isinstance(found, str):
            raise KeyError(found)
        texts = [self.constructor(thing).parameters if thing.kind == "class" else thing.parameters for thing in found]
        if not texts or not texts[0]:
            return None
        known = signatures.parse(texts[0]).parameters.values()
        return None if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in known) else {p.name for p in known}

    def find(self, path: str) -> tuple[Thing, ...] | str:
        """Return the value of ``"module:Name"``, or a message that it does not exist."""
        module, _, names = path.partition(":")
        if module not in self.modules:
            return f"no module {module}{self.hint(module, self.modules)}"
        things: tuple[Thing, ...] = (Thing("module", module),)
        for name in names.split("."):
            found: list[Thing] = []
            for thing in things:
                members = self.member(thing, name)
                if isinstance(members, str):
                    return members
                found += members
            things = tuple(found)
        return things

    def member(self, owner: Thing, name: str) -> tuple[Thing, ...] | str:
        """Return the value of an attribute of `owner`, None if unknown, or a message that it does not exist."""
        names = self.names(owner)
        if names is None or name.startswith("__") or (owner.kind == "instance" and name.endswith("_")):
            return ()  # fitted attributes end with an underscore and exist after fit
        if name not in names:
            return f"{owner.name} has no {name}{self.hint(name, names)}"
        kind, _, rest = names[name].partition(" ")
        before, _, after = f" {rest}".partition(" -> ")
        results = tuple(after.split(" | ")) if after else ()
        if kind == "property":
            return tuple(Thing("instance", result) for result in results)
        if kind == "def":
            return (Thing("callable", f"{owner.name}.{name}", before.strip(), results, owner.shared),)
        if kind == "module" and rest.partition(".")[0] in self.roots and rest not in self.modules:
            return f"{rest} is not a public module, so the snapshot does not include it"
        if kind == "value" or (kind == "module" and rest not in self.modules):
            return ()
        return (Thing("module" if kind == "module" else "class", rest, shared=owner.shared and kind == "module"),)

    def names(self, owner: Thing) -> Mapping[str, str] | None:
        """Return name to snapshot line for a module, a class or an instance; None if unknown."""
        return self.modules.get(owner.name) if owner.kind == "module" else self.classes.get(owner.name)

    def constructor(self, cls: Thing) -> Thing:
        """Return the constructor of a class as a callable."""
        parameters = self.classes.get(cls.name, {}).get("()", "def ").partition(" ")[2]
        return Thing("callable", cls.name, parameters, (cls.name,))

    @staticmethod
    def hint(name: str, known: Collection[str]) -> str:
        """Return ``"; did you mean …?"``, or ``""``."""
        meant = did_you_mean(name, sorted(known, reverse=True))  # prefer the class Ridge to the module ridge
        return f"; {meant}" if meant else ""


def check_table(api: Api, table: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a message for each class of a table that does not exist, and for each parameter that it does not take.

    Parameters
    ----------
    table : mapping of str to collection of str
        ``"module:Class"`` to the parameters that we pass.
    """
    for path, passed in table.items():
        found = api.find(path)
        if isinstance(found, str):
            yield found
            continue
        known = api.parameters(path)
        for name in passed:
            if known is not None and name not in known:
                yield f"{path} takes no parameter {name!r}{api.hint(name, known)}"
