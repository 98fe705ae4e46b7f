"""Thread that executes machine code as far as needed to follow its control flow.

Integers are computed, floating-point numbers are not: a register with the result of floating-point arithmetic is
unknown, and so is a predicate that depends on one. A forward branch that depends on such a predicate is not taken, so
instructions that it could skip are counted; a division takes its fast path. All other control flow of kernels that run
programs depends on integers, so the path of a thread is known, and with it the number of instructions that a warp
issues.
"""

from __future__ import annotations

import re

from tools.machine_code.sass.actions import ACTIONS
from tools.machine_code.sass.code import PREDICATE, SassCode, SassInstruction
from tools.machine_code.sass.registers import MASK, SassRegisters

MOST_STEPS = 2_000_000  # of one thread; an endless loop means that an instruction is misinterpreted

_LOCAL = re.compile(r"\((\.L_x_\d+)\)")  # a call of one is a jump too far for a branch


class SassThread:
    """A thread of a kernel.

    Parameters
    ----------
    code : SassCode
    known : SassRegisters

    Attributes
    ----------
    n_writes : int
        Number of instructions that wrote to global memory.
    """

    def __init__(self, code: SassCode, known: SassRegisters) -> None:
        self.code = code
        self.known = known
        self.n_writes = 0
        self.at = {one.address: i for i, one in enumerate(code.instructions)}

    def run(self) -> int:
        """Return the number of instructions that the thread executes until it ends.

        Raises
        ------
        ValueError
            If a loop depends on a floating-point number or an unsupported instruction.
        """
        i = 0
        for n in range(1, MOST_STEPS):
            one = self.code.instructions[i]
            guard = self.known.predicate(one.guard) if one.guard else True
            if one.name == "EXIT" and guard:
                return n
            if one.name in ("BRA", "BRX", "BRXU") or (one.name == "CALL" and _LOCAL.search(one.operands[-1])):
                i = self._branch(one, guard, i)
                continue
            if one.name in ("CALL", "RET") and guard is not False:
                raise ValueError(f"{one.address:#x}: calls are not supported")
            self.n_writes += one.name == "STG" and guard is True
            if guard is not False:
                self._execute(one, certain=guard is True)
            i += 1
        raise ValueError("the thread does not end")

    def _branch(self, one: SassInstruction, guard: bool | None, i: int) -> int:
        taken = guard
        if one.operands and PREDICATE.match(one.operands[0]):
            condition = self.known.predicate(one.operands[0])
            taken = False if condition is False or guard is False else None if None in (condition, guard) else True
        if taken is None and (one.name in ("BRX", "BRXU") or self._target(one) <= i):
            raise ValueError(f"{one.address:#x}: a loop depends on an unknown value: {one.name} {one.operands}")
        if not taken:
            return i + 1
        if one.name in ("BRX", "BRXU"):
            register, offset = one.operands[0].split()
            target = self.known.wide(register)
            if target is None:
                raise ValueError(f"{one.address:#x}: the target of a jump is unknown")
            following = self.code.instructions[i + 1].address
            return self.at[(target + int(offset, 16) + following) & MASK]
        return self._target(one)

    def _target(self, one: SassInstruction) -> int:
        label = _LOCAL.search(one.operands[-1])
        if label is None:
            raise ValueError(f"{one.address:#x}: no label in {one.operands}")
        return self.code.labels[label[1]]

    def _execute(self, one: SassInstruction, certain: bool) -> None:
        action = ACTIONS.get(one.name.removeprefix("U"))  # the uniform variant of an instruction means the same
        if action is None or not certain:
            self.known.forget(one)
        else:
            action(self.known, one)
