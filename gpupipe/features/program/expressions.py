"""Expressions: virtual columns during a fit, before they are compiled to instructions. Standard library only.

The program computes two kinds: `NumericExpr` (one float32 value per row) and `CategoryExpr` (one small integer per row,
each with a label). `TimeExpr` and `TextExpr` only name columns of the input. Ops build new expressions from existing
ones; nothing is computed until a statistic needs it or the program is compiled.

An expression represents the column that it alone is derived from (scaled, encoded, a part of it). An expression of
several columns, or one added beside its source, represents itself. A column that is already represented in the matrix
gets no automatic encoding (`gpupipe.features.program.builder.ProgramBuilder.unrepresented`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.table.schema import FIRST_LEVEL, NULL
from gpupipe.typing import Array
from gpupipe_kernels.program.opcodes import N_REGISTERS

if TYPE_CHECKING:
    from gpupipe_kernels.program.program import Call


@dataclass(frozen=True)
class IndexTerm:
    """One term of an index.

    ``op`` is an index instruction (`gpupipe_kernels.program.opcodes.Opcode`): ``INDEX`` takes the codes of `source`,
    ``INDEX_PAIR`` adds them to `stride` times the index so far, ``INDEX_PART`` takes calendar part `part` of `source`,
    ``INDEX_BIN`` counts the `edges` that are at most `source`.
    """

    op: str
    source: str
    stride: int = 0
    part: int = 0
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class CategoryExpr:
    """A categorical expression.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        The input columns it is made of.
    index : tuple of IndexTerm
        How the raw index of a row is computed.
    size : int
        Number of raw indices.
    labels : tuple of str
        The label of code ``FIRST_LEVEL + i``.
    remap : array of int, shape (size,), optional
        The code of each raw index; None where they are the same.
    kind : str
        ``"categorical"``, or ``"boolean"``.
    root : str
        The column that it represents; ``""`` is its one input.
    """

    name: str
    inputs: tuple[str, ...]
    index: tuple[IndexTerm, ...]
    size: int
    labels: tuple[str, ...]
    remap: Array | None = None
    kind: str = "categorical"
    root: str = ""

    @property
    def n_codes(self) -> int:
        """Number of codes, the reserved ones included."""
        return FIRST_LEVEL + len(self.labels)

    @property
    def represents(self) -> str:
        """The column that it represents in the matrix."""
        return self.root or self.inputs[0]

    def with_null_as(self, code: int) -> CategoryExpr:
        """Return the column with nulls counted as `code`."""
        import numpy as np

        remap = np.arange(self.size) if self.remap is None else np.array(self.remap)
        remap[remap == NULL] = code
        return replace(self, remap=remap)


@dataclass(frozen=True)
class Producer:
    """The instruction that produces the first value of a `NumericExpr`.

    ``op`` is ``LOAD``, ``EQUAL``, ``IS_NULL``, ``ELAPSED``, ``PART`` or ``BETWEEN`` of `source`, ``TAKE`` from `table`
    at the index of `codes`, or an instruction of several `operands` (``ADD``, ``HAVERSINE``, ``CALL``...).

    Attributes
    ----------
    arg : int
        The code of EQUAL, the calendar part of PART.
    other : str
        The second column of BETWEEN.
    params : tuple of float
        Of the instruction: origin (microseconds) and factor of ELAPSED...
    operands : tuple of NumericExpr
        What an instruction of several operands takes, in order.
    call : Call, optional
        The user's kernel of CALL.
    table : array of float, shape (folds + 1, size) or (size,), optional
        Lookup table of TAKE over the raw indices of `codes`; two axes where training rows read the table of their own
        fold (row 0 holds the full statistics).
    """

    op: str
    source: str = ""
    arg: int = 0
    other: str = ""
    params: tuple[float, ...] = ()
    operands: tuple[NumericExpr, ...] = ()
    call: Call | None = None
    codes: CategoryExpr | None = None
    table: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Transform:
    """A function of one value: ``FILL`` (value), ``LOG1P``, ``CLIP`` (low, high), ``SINE`` (factor, phase),
    ``YEO_JOHNSON`` (exponent), or ``CENTER`` (center, factor), which is ``(x - center) * factor``."""

    op: str
    params: tuple[float, ...] = ()


@dataclass(frozen=True)
class NumericExpr:
    """A numeric expression: a producer, and the transforms that are applied to its value in order.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        The input columns it is made of.
    producer : Producer
    transforms : tuple of Transform
    may_be_null : bool
        Whether a row can still be NaN. A scaled value that overflows float32 is ignored: no training row has one.
    root : str
        The column that it represents; ``""`` is its one input.
    """

    name: str
    inputs: tuple[str, ...]
    producer: Producer
    transforms: tuple[Transform, ...] = ()
    may_be_null: bool = True
    root: str = ""

    kind = "numeric"

    @property
    def represents(self) -> str:
        """The column that it represents in the matrix."""
        return self.root or self.inputs[0]

    def then(self, op: str, *params: float) -> NumericExpr:
        """Return the expression with one more transform."""
        may_be_null = op != "FILL" and (self.may_be_null or op in ("LOG1P", "YEO_JOHNSON"))
        return replace(self, transforms=(*self.transforms, Transform(op, params)), may_be_null=may_be_null)


def combine(
    name: str, op: str, operands: tuple[NumericExpr, ...], *params: float, call: Call | None = None
) -> NumericExpr:
    """Return the expression of an instruction that takes several operands; it represents itself.

    It is null where an operand is null and where the result overflows float32, so it may be null whatever they are.

    Raises
    ------
    ConfigError
        If the operands are nested so deeply that a program has too few registers.
    """
    if (n := max(i + count_registers(operand) for i, operand in enumerate(operands))) > N_REGISTERS:
        raise ConfigError(
            f"{name!r} is made of columns of columns with {n} intermediate results; there is room for {N_REGISTERS}",
            fix="give the column that is itself made of others first",
            names=[name],
        )
    inputs = tuple(dict.fromkeys(source for operand in operands for source in operand.inputs))
    producer = Producer(op, params=params, operands=operands, call=call)
    return NumericExpr(name, inputs, producer, root=name)


def count_registers(column: NumericExpr) -> int:
    """Return how many intermediate results a program holds while it computes an expression."""
    return max((i + count_registers(operand) for i, operand in enumerate(column.producer.operands)), default=0)


@dataclass(frozen=True)
class TimeExpr:
    """A column of timestamps."""

    name: str
    inputs: tuple[str, ...]
    source: str

    kind = "datetime"


@dataclass(frozen=True)
class TextExpr:
    """A column of free text. No op reads it in a program; text ops derive columns from it before the fit."""

    name: str
    inputs: tuple[str, ...]

    kind = "text"


Expr = NumericExpr | CategoryExpr | TimeExpr | TextExpr


@dataclass(frozen=True)
class OutputColumn:
    """A column of the matrix.

    Attributes
    ----------
    column : NumericExpr
    op : str
        The last op that changed it.
    n_codes : int
        Where the values are integer ids: how many there are; 0 for numbers.
    """

    column: NumericExpr
    op: str
    n_codes: int = 0
