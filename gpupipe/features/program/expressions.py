"""Virtual columns: how a value is made of source columns, before it becomes instructions. Standard library only.

A virtual column is either `Numbers` (a float32 value a row) or `Codes` (a small integer a row, with a label for each).
Ops make new ones of old ones; nothing is computed until statistics need it or the program is written.

A column stands for the one that it was made of alone (scaled, encoded, a part of it); made of several, or beside its
source, it stands for itself. What some column of the matrix stands for is not looked after any further
(`gpupipe.features.program.builder.Builder.leftovers`).
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
class IndexStep:
    """One step of the computation of an index.

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
class Codes:
    """A categorical column.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        The input columns it is made of.
    index : tuple of IndexStep
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
        The column that it stands for; ``""`` is its one input.
    """

    name: str
    inputs: tuple[str, ...]
    index: tuple[IndexStep, ...]
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
    def stands_for(self) -> str:
        """The column in whose place it is."""
        return self.root or self.inputs[0]

    def with_null_as(self, code: int) -> Codes:
        """Return the column with nulls counted as `code`."""
        import numpy as np

        remap = np.arange(self.size) if self.remap is None else np.array(self.remap)
        remap[remap == NULL] = code
        return replace(self, remap=remap)


@dataclass(frozen=True)
class Start:
    """Where the value of a `Numbers` column begins.

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
    operands : tuple of Numbers
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
    operands: tuple[Numbers, ...] = ()
    call: Call | None = None
    codes: Codes | None = None
    table: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Step:
    """One step of a chain: ``FILL`` (value), ``LOG1P``, ``CLIP`` (low, high), ``SINE`` (factor, phase), ``YEO_JOHNSON``
    (exponent), or ``CENTER`` (center, factor), which is ``(x - center) * factor``."""

    op: str
    params: tuple[float, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """A numeric column: a start and a chain of steps.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        The input columns it is made of.
    start : Start
    steps : tuple of Step
    may_be_null : bool
        Whether a row can still be NaN. That a scaled value lies beyond float32 is left out: so far away no row was.
    root : str
        The column that it stands for; ``""`` is its one input.
    """

    name: str
    inputs: tuple[str, ...]
    start: Start
    steps: tuple[Step, ...] = ()
    may_be_null: bool = True
    root: str = ""

    kind = "numeric"

    @property
    def stands_for(self) -> str:
        """The column in whose place it is."""
        return self.root or self.inputs[0]

    def then(self, op: str, *params: float) -> Numbers:
        """Return the column with one more step."""
        may_be_null = op != "FILL" and (self.may_be_null or op in ("LOG1P", "YEO_JOHNSON"))
        return replace(self, steps=(*self.steps, Step(op, params)), may_be_null=may_be_null)


def combined(name: str, op: str, operands: tuple[Numbers, ...], *params: float, call: Call | None = None) -> Numbers:
    """Return the column that an instruction makes of several others, beside them.

    Null where one of them is, and where the result exceeds float32: so it may be null, whatever they are.

    Raises
    ------
    ConfigError
        If the columns are themselves made of others, of others..., beyond the registers that a program has.
    """
    if (n := max(i + registers(operand) for i, operand in enumerate(operands))) > N_REGISTERS:
        raise ConfigError(
            f"{name!r} is made of columns of columns with {n} intermediate results; there is room for {N_REGISTERS}",
            fix="give the column that is itself made of others first",
            names=[name],
        )
    inputs = tuple(dict.fromkeys(source for operand in operands for source in operand.inputs))
    start = Start(op, params=params, operands=operands, call=call)
    return Numbers(name, inputs, start, root=name)


def registers(column: Numbers) -> int:
    """Return how many intermediate results a program holds while it computes a column."""
    return max((i + registers(operand) for i, operand in enumerate(column.start.operands)), default=0)


@dataclass(frozen=True)
class Times:
    """A column of time stamps."""

    name: str
    inputs: tuple[str, ...]
    source: str

    kind = "datetime"


@dataclass(frozen=True)
class Texts:
    """A column of free text, which no op of this table reads."""

    name: str
    inputs: tuple[str, ...]

    kind = "text"


Virtual = Numbers | Codes | Times | Texts


@dataclass(frozen=True)
class Output:
    """A column of the matrix.

    Attributes
    ----------
    column : Numbers
    op : str
        The op that made it last.
    n_codes : int
        Where the values are integer ids: how many there are; 0 for numbers.
    """

    column: Numbers
    op: str
    n_codes: int = 0
