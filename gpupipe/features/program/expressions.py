"""Expressions: virtual columns during a fit, before they are compiled to instructions. Standard library only.

A program computes two kinds: `NumericExpr` (one float32 value per row) and `CategoryExpr` (one labeled integer code per
row). `TimeExpr` and `TextExpr` only name input columns. Ops build new expressions from existing ones; nothing is
computed until a statistic is needed or the program is compiled.

An expression of a single column (scaled, encoded, a part of it) represents that column. An expression of several
columns, or one that is added next to its source, represents itself. A column that is already represented in the matrix
gets no automatic encoding (`gpupipe.features.program.builder.ProgramBuilder.unrepresented`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
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
    ``INDEX_LOCAL_PART`` takes it in a time zone, whose transitions and offsets are `edges`, ``INDEX_ZONED_PART`` in the
    time zone of the code of `other`, of those in `edges`, ``INDEX_BIN`` counts the `edges` that are at most `source`.
    """

    op: str
    source: str
    stride: int = 0
    part: int = 0
    edges: tuple[float, ...] = ()
    other: str = ""


@dataclass(frozen=True, eq=False)
class CategoryExpr:
    """A categorical expression of the columns `inputs`.

    `index` has the terms of the raw index of a row, which is below `size`. `labels` has the label of code
    ``FIRST_LEVEL + i``. `remap` has the code of each raw index, shape (size,); None if they are equal. `kind` is
    ``"categorical"`` or ``"boolean"``. `root` is the column that it represents; ``""`` is its one input.
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
        """Return the expression with nulls replaced by `code`."""
        import numpy as np

        remap = np.arange(self.size) if self.remap is None else np.array(self.remap)
        remap[remap == NULL] = code
        return replace(self, remap=remap)


@dataclass(frozen=True)
class Producer:
    """The instruction that produces the first value of a `NumericExpr`.

    ``op`` is ``LOAD``, ``EQUAL``, ``IS_NULL``, ``ELAPSED``, ``PART``, ``LOCAL_PART``, ``ZONED_PART`` or ``BETWEEN`` of
    `source`, ``TAKE`` from `table` at the index of `codes`, or an instruction of several `operands` (``ADD``,
    ``HAVERSINE``, ``CALL``...).
    """

    op: str
    source: str = ""
    arg: int = 0  # the code of EQUAL, the calendar part of PART, LOCAL_PART and ZONED_PART
    other: str = ""  # the second column of BETWEEN, and that of the time zones of ZONED_PART
    params: tuple[float, ...] = ()  # parameters of the instruction, such as origin (microseconds) and factor of ELAPSED
    operands: tuple[NumericExpr, ...] = ()
    call: Call | None = None  # the user's kernel of CALL
    codes: CategoryExpr | None = None
    # float, shape (folds + 1, size) or (size,): lookup table of TAKE over the raw indices of `codes`. With two axes,
    # each training row reads the table of its fold; row 0 contains the full statistics. float64 if float32 loses
    # differences of its values.
    table: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Transform:
    """A function of one value: ``FILL`` (value), ``LOG1P``, ``CLIP`` (low, high), ``SINE`` (factor, phase),
    ``YEO_JOHNSON`` (exponent), or ``CENTER`` (center, factor), which is ``(x - center) * factor``."""

    op: str
    params: tuple[float, ...] = ()


@dataclass(frozen=True)
class NumericExpr:
    """A numeric expression: a producer, and transforms that are applied to its value in order.

    `inputs` are the input columns that it is computed from. `may_be_null` is whether a row can still be NaN; overflow
    of scaled values is ignored, as it does not occur in the training rows. `root` is the column that it represents;
    ``""`` is its one input.
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
        may_be_null = op != "FILL" and (self.may_be_null or op in ("LOG1P", "YEO_JOHNSON", "SINE"))
        return replace(self, transforms=(*self.transforms, Transform(op, params)), may_be_null=may_be_null)


def combine(
    name: str, op: str, operands: tuple[NumericExpr, ...], *params: float, call: Call | None = None
) -> NumericExpr:
    """Return the expression of an instruction that takes several operands; it represents itself.

    It is null where an operand is null or the result overflows float32, so it may be null even if no operand is. Raise
    ConfigError if the operands are nested too deeply for the registers of a program.
    """
    if (n := max(i + count_registers(operand) for i, operand in enumerate(operands))) > N_REGISTERS:
        raise ConfigError(
            f"{name!r} needs {n} registers for intermediate results; a program has {N_REGISTERS}",
            fix="list the input that is itself computed from other columns first",
            names=[name],
        )
    inputs = tuple(dict.fromkeys(chain.from_iterable(operand.inputs for operand in operands)))
    producer = Producer(op, params=params, operands=operands, call=call)
    return NumericExpr(name, inputs, producer, root=name)


def take(codes: CategoryExpr, table: Array, name: str) -> NumericExpr:
    """Return the lookup of `codes` in `table`, shape (n_codes,) or (folds + 1, n_codes), as a column called `name`."""
    import numpy as np

    values = np.asarray(table, np.float32)
    if codes.remap is not None:
        values = values[..., codes.remap]
    producer = Producer("TAKE", codes=codes, table=values)
    return NumericExpr(name, codes.inputs, producer, may_be_null=bool(np.isnan(values).any()), root=name)


def code_values(codes: Sequence[CategoryExpr]) -> list[NumericExpr]:
    """Return expressions of the codes themselves, exact in float32 up to 2**24."""
    import numpy as np

    return [take(code, np.arange(code.n_codes), code.name) for code in codes]


def count_registers(column: NumericExpr) -> int:
    """Return the number of registers that a program needs to compute an expression."""
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
    """A text or list column, by its `kind`. Programs do not read it; derived ops do, before the fit."""

    name: str
    inputs: tuple[str, ...]
    kind: str = "text"


Expr = NumericExpr | CategoryExpr | TimeExpr | TextExpr


@dataclass(frozen=True)
class OutputColumn:
    """A column of the matrix.

    `op` is the last op that changed it. `n_codes` is the number of codes if the values are integer ids; 0 for numbers.
    """

    column: NumericExpr
    op: str
    n_codes: int = 0
