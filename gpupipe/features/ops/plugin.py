"""Base class of feature ops in other packages: an op that consists of gpupipe's ops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gpupipe.entry_points import InstalledPlugin
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.features.history.derivation import DerivedOp
from gpupipe.features.ops.base import OPS, FeatureOp
from gpupipe.features.ops.generate import Generate
from gpupipe.features.program.builder import ProgramBuilder

NOT_ROW_WISE = (DerivedOp, Generate)


class PluginOp(FeatureOp):
    """A feature op of another package, made of gpupipe's row-wise ops.

    Its fields are the settings of the op, checked by pydantic. The model contains the compiled features, so it predicts
    without the package. Ops over histories and texts, ``generate`` and other plug-ins cannot be part of it.

    Examples
    --------
    >>> from gpupipe.plugins import PluginOp
    >>> class BodyMassIndex(PluginOp):
    ...     '''Weight in kg divided by the square of the height in m.'''
    ...
    ...     weight: str
    ...     height: str
    ...
    ...     def expand(self, columns):
    ...         return [{"expression": {"bmi": f"`{self.weight}` / `{self.height}` ** 2"}}]
    >>> BodyMassIndex(weight="kg", height="m").expand({"kg": "numeric", "m": "numeric"})
    [{'expression': {'bmi': '`kg` / `m` ** 2'}}]
    """

    @abstractmethod
    def expand(self, columns: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        """Return the ops, in the form of the section ``features``: ``[{"log1p": {"columns": "visits"}}]``.

        Parameters
        ----------
        columns : mapping of str to str
            Name of each column, as earlier ops left it, to its kind: ``numeric``, ``categorical``, ``boolean``,
            ``datetime`` or ``text``.
        """

    def apply(self, builder: ProgramBuilder) -> None:
        """Apply the ops of `expand`, in order.

        Raises
        ------
        ConfigError
            If one of them is invalid, or does not apply to its columns.
        """
        columns = {name: column.kind for name, column in builder.columns.items()}
        for op in self._parts(columns):
            op.apply(builder)

    def _parts(self, columns: Mapping[str, str]) -> list[FeatureOp]:
        try:
            items = list(self.expand(columns))
        except GpupipeError:
            raise
        except Exception as error:  # code of another package
            raise ConfigError(
                f"{self.title()}: expand failed: {type(error).__name__}: {error}",
                fix="check the settings of the op, or report this to the author of its package",
            ) from error
        return [self._part(item) for item in items]

    def _part(self, item: Any) -> FeatureOp:
        if not isinstance(item, Mapping) or len(item) != 1:
            raise self._invalid(f"expected one op, such as {{'log1p': {{'columns': 'visits'}}}}; got {item!r:.80}")
        ((name, settings),) = item.items()
        if name not in OPS.builtin_names():
            raise self._invalid(f"expected an op of gpupipe; got {name!r:.40}")
        kind = OPS.get(name)
        if issubclass(kind, NOT_ROW_WISE):
            raise self._invalid(f"the op {name} cannot be part of another one")
        try:
            return kind.model_validate({"columns": settings} if isinstance(settings, str | list) else settings or {})
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise self._invalid(f"{name}: {'; '.join(problems)}") from None

    def _invalid(self, problem: str) -> ConfigError:
        return ConfigError(
            f"{self.title()}: expand returned an invalid op: {problem}", fix="report this to the author of its package"
        )


def adapt_op(plugin: InstalledPlugin, found: Any) -> type[FeatureOp]:
    """Return the op of a plug-in; raise TypeError if its object is not a `PluginOp`."""
    if not isinstance(found, type) or not issubclass(found, PluginOp):
        raise TypeError("a subclass of gpupipe.plugins.PluginOp")
    return found
