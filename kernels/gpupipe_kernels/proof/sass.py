"""Machine code of an NVIDIA GPU, executed for one thread as far as its control flow goes.

Integers are computed, numbers are not: a register that holds the result of floating-point arithmetic is unknown, and
so is a predicate that depends on one. A forward branch that depends on a number is not taken, so that what it could
skip is counted; a division takes its fast path. All else in the control flow of kernels that run programs depends on
integers, so the path of a thread through them is known, and with it how many instructions a warp issues.

The meaning of an instruction is that of NVIDIA's "CUDA Binary Utilities" (instruction set reference) and of what
nvdisasm prints for code whose result is known.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

MASK, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
MOST_STEPS = 2_000_000  # of one thread: a loop that does not end is an instruction that is misunderstood

Value = int | None
"""32 bits of a register; None where they are unknown."""

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*(?:\(\*.*\*\))?;")
_LOCAL = re.compile(r"\((\.L_x_\d+)\)")  # a call of one is a jump that is too far for a branch
_LABEL = re.compile(r"^(\.L_x_\d+):")
_SECTION = re.compile(r"^\.text\.(\S+):")
_PREDICATE = re.compile(r"!?U?P(?:\d|T)$")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its guard, its opcode with modifiers, and its operands as nvdisasm prints them."""

    address: int
    guard: str
    name: str
    modifiers: frozenset[str]
    operands: tuple[str, ...]


@dataclass
class Code:
    """A kernel as nvdisasm prints it.

    Attributes
    ----------
    instructions : list of Instruction
    labels : dict of str to int
        Label to the position of the instruction that it is before.
    """

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Code:
        """Return the code in what ``nvdisasm -c`` printed."""
        code, inside = Code(), False
        for line in text.splitlines():
            inside = inside or bool(_SECTION.match(line))
            if inside and (label := _LABEL.match(line)):
                code.labels[label[1]] = len(code.instructions)
            elif inside and (found := _LINE.match(line)):
                code.instructions.append(_instruction(int(found[1], 16), found[2]))
        return code


def _instruction(address: int, text: str) -> Instruction:
    guard = ""
    if text.startswith("@"):
        guard, text = text[1:].split(None, 1)
    name, _, rest = text.partition(" ")
    base, *modifiers = name.split(".")
    operands = tuple(part.strip().replace(".reuse", "") for part in rest.split(",")) if rest.strip() else ()
    return Instruction(address, guard, base, frozenset(modifiers), operands)


class Thread:
    """A thread of a kernel.

    Parameters
    ----------
    code : Code
    constants : mapping of (int, int) to int
        Constant bank and offset in bytes to a word; launch dimensions and arguments are in bank 0.
    memory : mapping of int to bytes
        Address of an array to its contents.
    special : mapping of str to int
        Special registers, such as ``SR_CTAID.Y``.

    Attributes
    ----------
    n_writes : int
        Instructions that have written to global memory.
    """

    def __init__(
        self,
        code: Code,
        constants: Mapping[tuple[int, int], int],
        memory: Mapping[int, bytes],
        special: Mapping[str, int],
    ) -> None:
        self.code, self.constants, self.memory, self.special = code, constants, memory, special
        self.n_writes = 0
        self.registers: dict[str, Value] = {}
        self.predicates: dict[str, bool | None] = {}
        self.at = {one.address: i for i, one in enumerate(code.instructions)}

    def run(self) -> int:
        """Return how many instructions the thread executes until it ends.

        Raises
        ------
        ValueError
            If a loop depends on a number, or on an instruction that is not understood.
        """
        i = 0
        for n in range(1, MOST_STEPS):
            one = self.code.instructions[i]
            guard = self._predicate(one.guard) if one.guard else True
            if one.name == "EXIT" and guard:
                return n
            if one.name in ("BRA", "BRX") or (one.name == "CALL" and _LOCAL.search(one.operands[-1])):
                i = self._branch(one, guard, i)
                continue
            if one.name in ("CALL", "RET") and guard is not False:
                raise ValueError(f"{one.address:#x}: a call is not followed")
            self.n_writes += one.name == "STG" and guard is True
            if guard is not False:
                self._execute(one, certain=guard is True)
            i += 1
        raise ValueError("the thread does not end")

    def _branch(self, one: Instruction, guard: bool | None, i: int) -> int:
        taken = guard
        if one.operands and _PREDICATE.match(one.operands[0]):
            condition = self._predicate(one.operands[0])
            taken = False if condition is False or guard is False else None if None in (condition, guard) else True
        if taken is None and (one.name == "BRX" or self._target(one) <= i):
            raise ValueError(f"{one.address:#x}: a loop depends on what is unknown: {one.name} {one.operands}")
        if not taken:
            return i + 1
        if one.name == "BRX":
            register, offset = one.operands[0].split()
            target = self._wide(register)
            if target is None:
                raise ValueError(f"{one.address:#x}: the target of a jump is unknown")
            following = self.code.instructions[i + 1].address
            return self.at[(target + int(offset, 16) + following) & MASK]
        return self._target(one)

    def _target(self, one: Instruction) -> int:
        label = _LOCAL.search(one.operands[-1])
        if label is None:
            raise ValueError(f"{one.address:#x}: no label in {one.operands}")
        return self.code.labels[label[1]]

    # ------------------------------------------------------------------------------------------------ operands

    def _predicate(self, text: str) -> bool | None:
        name = text.lstrip("!")
        value = True if name in ("PT", "UPT") else self.predicates.get(name)
        return value if value is None or not text.startswith("!") else not value

    def _value(self, text: str) -> Value:
        if text.startswith("-") and not re.match(r"-0x|-\d", text):
            value = self._value(text[1:])
            return None if value is None else -value & MASK
        if text.startswith("~"):
            value = self._value(text[1:])
            return None if value is None else ~value & MASK
        if re.match(r"-?0x[0-9a-f]+$", text) or re.match(r"-?\d+$", text):
            return int(text, 0) & MASK
        if text.startswith("c["):
            return self._constant(text, 0)
        name = text.split(".")[0]
        return 0 if name in ("RZ", "URZ", "SRZ") else self.registers.get(name)

    def _wide(self, text: str) -> Value:
        """Return the 64 bits of a register and the one after it."""
        if re.match(r"-?0x[0-9a-f]+$", text):
            return int(text, 16) & MASK64
        if text.startswith("c["):
            low, high = self._constant(text, 0), self._constant(text, 4)
        elif text.startswith(("-", "~")):
            value = self._wide(text[1:])
            return None if value is None else (-value if text[0] == "-" else ~value) & MASK64
        else:
            name = text.split(".")[0]
            low, high = self._value(name), self._value(_next(name))
        return None if low is None or high is None else low | high << 32

    def _constant(self, text: str, more: int) -> Value:
        bank, inner = re.match(r"c\[(\w+)\]\[(.*)\]$", text).groups()  # type: ignore[union-attr]
        offset = more
        for part in inner.split("+"):
            value = self._value(part)
            if value is None:
                return None
            offset += value
        return self.constants.get((int(bank, 16), offset & MASK))

    def _address(self, text: str) -> Value:
        """Return the address in ``[R28.64+0xc]``, ``desc[UR24][R28.64+0xc]`` or ``[R2+UR4]``."""
        inner = text[text.rindex("[") + 1 : -1]
        total = 0
        for part in inner.replace("+-", "+-").split("+"):
            value = self._wide(part) if part.endswith(".64") else self._signed_part(part)
            if value is None:
                return None
            total += value
        return total & MASK64

    def _signed_part(self, text: str) -> Value:
        return int(text, 0) if re.match(r"-?0x", text) else self._value(text)

    def _set(self, name: str, value: Value) -> None:
        name = name.split(".")[0]
        if name not in ("RZ", "URZ"):
            self.registers[name] = None if value is None else value & MASK

    def _set_wide(self, name: str, value: Value) -> None:
        name = name.split(".")[0]
        self._set(name, value)
        if name not in ("RZ", "URZ"):
            self._set(_next(name), None if value is None else value >> 32)

    def _set_predicate(self, name: str, value: bool | None) -> None:
        if name not in ("PT", "UPT"):
            self.predicates[name] = value

    # -------------------------------------------------------------------------------------------- instructions

    def _execute(self, one: Instruction, certain: bool) -> None:
        name = one.name.removeprefix("U") if one.name.startswith("U") and one.name not in ("UMOV",) else one.name
        action = _ACTIONS.get(name)
        if action is None or not certain:
            self._forget(one)
        else:
            action(self, one)

    def _forget(self, one: Instruction) -> None:
        """Make what an instruction writes unknown: one that is not computed, or may not be executed."""
        if not one.operands or one.name in ("STG", "STS", "ST", "BAR", "NOP", "BSSY", "BSYNC", "WARPSYNC", "MEMBAR"):
            return
        for text in one.operands[:3] if _PREDICATE.match(one.operands[0]) else one.operands[:1]:
            if _PREDICATE.match(text):
                self._set_predicate(text.lstrip("!"), None)
        if not _PREDICATE.match(one.operands[0]) and re.match(r"U?R", one.operands[0]):
            n = 4 if "128" in one.modifiers else 2 if _writes_pair(one) else 1
            name = one.operands[0].split(".")[0]
            for _ in range(n):
                self._set(name, None)
                name = _next(name) if name not in ("RZ", "URZ") else name
            for text in one.operands[1:3]:
                if _PREDICATE.match(text) and not text.startswith("!"):
                    self._set_predicate(text, None)


def _next(name: str) -> str:
    kind, number = re.match(r"(U?R)(\d+|Z)$", name).groups()  # type: ignore[union-attr]
    return name if number == "Z" else f"{kind}{int(number) + 1}"


def _writes_pair(one: Instruction) -> bool:
    return bool({"64", "WIDE", "F64", "U64", "S64"} & one.modifiers) or one.name.startswith("D")


def _split(one: Instruction) -> tuple[str, list[str], list[str], list[str]]:
    """Return the destination, predicates that are written, operands, predicates that are read."""
    rest: list[str] = list(one.operands)
    out: list[str] = []
    while _PREDICATE.match(rest[0]):
        out.append(rest.pop(0))
    first = rest.pop(0)
    while rest and _PREDICATE.match(rest[0]):
        out.append(rest.pop(0))
    operands = [text for text in rest if not _PREDICATE.match(text)]
    return first, out, operands, [text for text in rest if _PREDICATE.match(text)]


def _sum(thread: Thread, texts: list[str], wide: bool, extended: bool, carries: list[bool | None]) -> Value:
    """Return the sum of operands with its carries: -x counts as 2**bits - x, which carries where x is 0."""
    bits, total = 64 if wide else 32, 0
    for text in texts:
        negative = text.startswith("-") and not text.startswith("-0x")
        value = (thread._wide if wide else thread._value)(text[1:] if negative else text)
        if value is None:
            return None
        total += (1 << bits) - value if negative else value
    if extended:
        if None in carries:
            return None
        total += sum(bool(carry) for carry in carries)
    return total


def _iadd(thread: Thread, one: Instruction) -> None:
    to, out, operands, into = _split(one)
    wide = "64" in one.modifiers
    carries = [thread._predicate(text) for text in into] if "X" in one.modifiers else []
    total = _sum(thread, operands, wide, "X" in one.modifiers, carries)
    (thread._set_wide if wide else thread._set)(to, total)
    bits = 64 if wide else 32
    for n, text in enumerate(out):
        thread._set_predicate(text, None if total is None else (total >> bits) > n)


def _imad(thread: Thread, one: Instruction) -> None:
    to, out, operands, into = _split(one)
    modifiers = one.modifiers
    a, b = thread._value(operands[0]), thread._value(operands[1])
    is_wide, is_high = "WIDE" in modifiers, "HI" in modifiers
    c = thread._wide(operands[2]) if is_wide or is_high else thread._value(operands[2])
    carry: bool | None = thread._predicate(into[-1]) if "X" in modifiers and into else False
    product: Value = None
    if 0 in (a, b) or (a is not None and b is not None):
        if "U32" not in modifiers and (is_wide or is_high):
            a, b = _signed(a), _signed(b)
        product = 0 if 0 in (a, b) else a * b  # type: ignore[operator]
    total = None if product is None or c is None or carry is None else product + (c if not is_high else 0) + carry
    if is_high:
        low = thread._value(operands[2])
        total = None if product is None or low is None else (product >> 32) + low
    if is_wide:
        thread._set_wide(to, None if total is None else total & MASK64)
        for text in out:
            thread._set_predicate(text, None if total is None else total >> 64 > 0)
    else:
        thread._set(to, total)
        for text in out:
            thread._set_predicate(text, None)


def _signed(value: Value, bits: int = 32) -> Value:
    return None if value is None else value - (1 << bits) if value >> bits - 1 else value


def _lea(thread: Thread, one: Instruction) -> None:
    to, out, operands, into = _split(one)
    modifiers = one.modifiers
    if "HI" not in modifiers:
        a, b, shift = thread._value(operands[0]), thread._value(operands[1]), thread._value(operands[2])
        total = None if a is None or b is None or shift is None else ((a << shift) & MASK) + b
    else:
        a, b, shift = thread._value(operands[0]), thread._value(operands[1]), thread._value(operands[-1])
        if "SX32" in modifiers:
            high: Value = None if a is None else (MASK if a >> 31 else 0)
        else:
            high = thread._value(operands[2])
        carry: bool | None = thread._predicate(into[-1]) if "X" in modifiers and into else False
        known = a is not None and b is not None and shift is not None and high is not None and carry is not None
        total = (((high << 32 | a) << shift >> 32) & MASK) + b + carry if known else None  # type: ignore[operator]
    thread._set(to, total)
    for text in out:
        thread._set_predicate(text, None if total is None else total >> 32 > 0)


def _shf(thread: Thread, one: Instruction) -> None:
    to, _, operands, _ = _split(one)
    low, shift, high = (thread._value(text) for text in operands)
    value: Value = None
    if shift is not None:
        if "L" in one.modifiers:
            if "HI" in one.modifiers and low is not None and high is not None:
                value = (high << 32 | low) << shift >> 32
            elif "HI" not in one.modifiers and low is not None:
                value = low << shift
        elif "HI" in one.modifiers and high is not None:
            value = (_signed(high) if "S32" in one.modifiers else high) >> min(shift, 31)  # type: ignore[operator]
        elif low is not None and high is not None:
            both = high << 32 | low
            value = (_signed(both, 64) if "S64" in one.modifiers else both) >> shift  # type: ignore[operator]
    thread._set(to, value)


def _lop3(thread: Thread, one: Instruction) -> None:
    to, out, operands, into = _split(one)
    a, b, c, table = (thread._value(text) for text in operands[:4])
    value: Value = None
    if a is not None and b is not None and c is not None and table is not None:
        value = 0
        for i in range(8):
            if table >> i & 1:
                value |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        value &= MASK
    elif table == 0xC0 and 0 in (a, b):
        value = 0
    thread._set(to, value)
    for text in out:
        thread._set_predicate(text, None if value is None else value != 0 or thread._predicate(into[-1]))


def _plop3(thread: Thread, one: Instruction) -> None:
    (first, second), inputs = one.operands[:2], [thread._predicate(text) for text in one.operands[2:5]]
    for text, table in ((first, one.operands[5]), (second, one.operands[6])):
        value: bool | None = None
        if None not in inputs:
            i = sum(bool(bit) << place for bit, place in zip(inputs, (2, 1, 0), strict=True))
            value = bool(int(table, 0) >> i & 1)
        thread._set_predicate(text, value)


_COMPARISONS = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def _isetp(thread: Thread, one: Instruction) -> None:
    first, second, left, right, *predicates = one.operands
    wide = bool({"U64", "S64"} & one.modifiers)
    a, b = (thread._wide(left), thread._wide(right)) if wide else (thread._value(left), thread._value(right))
    bits = 64 if wide else 32
    if not {"U32", "U64"} & one.modifiers:
        a, b = _signed(a, bits), _signed(b, bits)
    comparison = next(name for name in _COMPARISONS if name in one.modifiers)
    found: bool | None = None if a is None or b is None else _COMPARISONS[comparison](a, b)
    if "EX" in one.modifiers and found is not None:
        low = thread._predicate(predicates[1])
        if comparison in ("EQ", "NE"):
            found = found and low if comparison == "EQ" else found or low
        elif a == b:
            found = low
    other = thread._predicate(predicates[0])
    thread._set_predicate(first, _combined(one.modifiers, found, other))
    thread._set_predicate(second, _combined(one.modifiers, None if found is None else not found, other))


def _combined(modifiers: frozenset[str], a: bool | None, b: bool | None) -> bool | None:
    if "OR" in modifiers:
        return True if True in (a, b) else None if None in (a, b) else False
    if "XOR" in modifiers:
        return None if None in (a, b) else a != b
    return False if False in (a, b) else None if None in (a, b) else True


def _sel(thread: Thread, one: Instruction) -> None:
    to, _, operands, into = _split(one)
    chosen = thread._predicate(into[-1])
    wide = "64" in one.modifiers
    values = [(thread._wide if wide else thread._value)(text) for text in operands]
    value = None if chosen is None else values[0 if chosen else 1]
    (thread._set_wide if wide else thread._set)(to, value)


def _minmax(thread: Thread, one: Instruction) -> None:
    to, _, operands, into = _split(one)
    wide = bool({"U64", "S64"} & one.modifiers)
    values = [(thread._wide if wide else thread._value)(text) for text in operands]
    added = one.name.endswith("ADDMNMX")
    if added and None not in values:
        values = [(values[0] + values[1]) & MASK, values[2]]  # type: ignore[operator]
    if not any(name.startswith("U") for name in one.modifiers) and not added:
        values = [_signed(value, 64 if wide else 32) for value in values]
    least = thread._predicate(into[0])
    value: Value = None
    if None not in values and least is not None:
        value = (min if least else max)(values)  # type: ignore[type-var]
    (thread._set_wide if wide else thread._set)(to, None if value is None else value & MASK64)


def _move(thread: Thread, one: Instruction) -> None:
    to, source = one.operands[0], one.operands[-1]
    if "64" in one.modifiers:
        thread._set_wide(to, thread._wide(source))
    else:
        thread._set(to, thread._value(source))


def _permute(thread: Thread, one: Instruction) -> None:
    """Pick bytes of two registers; a selector from 8 on stands for the sign of its byte."""
    to, *texts = one.operands
    a, selectors, b = (thread._value(text) for text in texts)
    value: Value = None
    if a is not None and b is not None and selectors is not None:
        both, value = b << 32 | a, 0
        for i in range(4):
            selector = selectors >> 4 * i & 0xF
            byte = both >> 8 * (selector & 7) & 0xFF
            value |= ((0xFF if byte >> 7 else 0) if selector & 8 else byte) << 8 * i
    thread._set(to, value)


def _halves(thread: Thread, one: Instruction) -> None:
    """Set two halves of a register: how constants are made where the other units are busy."""
    to, first, second, *halves = one.operands
    value: Value = None
    if first == "-RZ" and second == "RZ" and len(halves) == 2:
        high, low = (int(np.float16(float(text)).view(np.uint16)) for text in halves)
        value = high << 16 | low
    thread._set(to, value)


def _special(thread: Thread, one: Instruction) -> None:
    to, name = one.operands[0], one.operands[-1]
    if name == "SRZ":
        (thread._set if "32" in one.modifiers else thread._set_wide)(to, 0)
    else:
        thread._set(to, thread.special.get(name))


def _load_constant(thread: Thread, one: Instruction) -> None:
    to, source = one.operands
    if source.startswith("c["):
        words = 4 if "128" in one.modifiers else 2 if "64" in one.modifiers else 1
        name = to.split(".")[0]
        for i in range(words):
            value = thread._constant(source, 4 * i)
            thread._set(name, None if value is None else value & 0xFF if "U8" in one.modifiers else value)
            name = _next(name)
    else:
        thread._forget(one)


def _load(thread: Thread, one: Instruction) -> None:
    to, source = one.operands[0], one.operands[-1]
    address = thread._address(source)
    size = (
        8
        if "64" in one.modifiers
        else 1
        if {"U8", "S8"} & one.modifiers
        else 2
        if {"U16", "S16"} & one.modifiers
        else 4
    )
    for base, content in thread.memory.items():
        if address is not None and base <= address <= base + len(content) - size:
            block = content[address - base : address - base + size]
            value = int.from_bytes(block, "little", signed=bool({"S8", "S16"} & one.modifiers))
            (thread._set_wide if size == 8 else thread._set)(to, value & MASK64)
            return
    thread._forget(one)


def _convert(thread: Thread, one: Instruction) -> None:
    """Compute a step of the division of integers by a reciprocal: only there is the input known."""
    to, source = one.operands[0], one.operands[-1]
    value = thread._value(source)
    if value is None or not {"U32", "RCP"} & one.modifiers:
        thread._forget(one)
        return
    if one.name.endswith("F2I"):
        found = int(_float(value))
    else:
        number = np.float32(value) if one.name.endswith("I2F") else np.float32(1) / _float(value)
        found = int(np.float32(number).view(np.uint32))
    thread._set(to, found)


def _float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _fchk(thread: Thread, one: Instruction) -> None:
    thread._set_predicate(one.operands[0], False)  # True is for denormal operands and the like


def _iabs(thread: Thread, one: Instruction) -> None:
    value = _signed(thread._value(one.operands[1]))
    thread._set(one.operands[0], None if value is None else abs(value))


_ACTIONS = {
    "IADD3": _iadd, "IADD": _iadd, "VIADD": _iadd, "IMAD": _imad, "LEA": _lea, "SHF": _shf, "LOP3": _lop3,
    "PLOP3": _plop3, "ISETP": _isetp, "SEL": _sel, "IMNMX": _minmax, "VIMNMX": _minmax, "VIADDMNMX": _minmax,
    "MOV": _move, "UMOV": _move, "R2UR": _move, "S2R": _special, "S2UR": _special, "CS2R": _special,
    "LDC": _load_constant, "LDCU": _load_constant, "ULDC": _load_constant, "LDG": _load, "LD": _load,
    "IABS": _iabs, "HFMA2": _halves, "PRMT": _permute, "FCHK": _fchk,
    "I2F": _convert, "F2I": _convert, "MUFU": _convert,
}  # fmt: skip


def constant_words(cubin: bytes) -> dict[tuple[int, int], int]:
    """Return the words of the constant banks that a cubin brings, such as the tables of its jumps."""
    start = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, n, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(n)]
    names = sections[names_at][4]
    words: dict[tuple[int, int], int] = {}
    for section in sections:
        name = cubin[names + section[0] : cubin.index(b"\0", names + section[0])].decode()
        if found := re.match(r"\.nv\.constant(\d)", name):
            content = cubin[section[4] : section[4] + section[5] // 4 * 4]
            words |= {(int(found[1]), 4 * i): word for i, (word,) in enumerate(struct.iter_unpack("<I", content))}
    return words
