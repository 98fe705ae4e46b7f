"""What a user's kernel is: its text, its output and its null policy. How it is computed is `compile`'s."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property

from gpupipe_kernels.user.source import KernelStatement, text_of


class KernelDefinition:
    """A user's function with its null policy, as it is written. Two of the same text, output and policy are equal.

    Attributes
    ----------
    name : str
    parameters : tuple of str
    out : {"float32", "int32", "bool"}
    nulls : {"propagate", "pass"}
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[str, ...],
        out: str,
        nulls: str,
        collected: Callable[[], tuple[KernelStatement, ...]],
    ) -> None:
        self.name, self.parameters, self.out, self.nulls = name, inputs, out, nulls
        self._collected = collected

    @cached_property
    def pieces(self) -> tuple[KernelStatement, ...]:
        """What the function uses, and the function: found when first asked for, so that helpers may follow it."""
        return self._collected()

    @cached_property
    def source(self) -> str:
        """The text of the kernel and of all that it uses: a Python file that a configuration may name."""
        return text_of(self.pieces, f'@gpupipe.kernel(out="{self.out}", nulls="{self.nulls}")')

    @property
    def sha256(self) -> str:
        """The hexadecimal sha256 of `source`."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def n_inputs(self) -> int:
        """Number of float32 arguments."""
        return len(self.parameters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelDefinition) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)
