"""Semantics of the instructions that compute integers and predicates.

They follow the instruction set reference in NVIDIA's "CUDA Binary Utilities", and nvdisasm's output for code with known
results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tools.machine_code.sass.code import PREDICATE, SassInstruction
from tools.machine_code.sass.registers import (
    MASK,
    MASK64,
    SassRegisters,
    Value,
    next_register,
)


def _split(one: SassInstruction) -> tuple[str, list[str], list[str], list[str]]:
    """Return the destination, written predicates, operands and read predicates."""
    rest: list[str] = list(one.operands)
    out: list[str] = []
    while PREDICATE.match(rest[0]):
        out.append(rest.pop(0))
    first = rest.pop(0)
    while rest and PREDICATE.match(rest[0]):
        out.append(rest.pop(0))
    operands = [text for text in rest if not PREDICATE.match(text)]
    return first, out, operands, [text for text in rest if PREDICATE.match(text)]


def _sum(known: SassRegisters, texts: list[str], wide: bool, extended: bool, carries: list[bool | None]) -> Value:
    """Return the sum of operands with its carries: -x is 2**bits - x, which carries if x is 0."""
    bits, total = 64 if wide else 32, 0
    for text in texts:
        negative = text.startswith("-") and not text.startswith("-0x")
        value = (known.wide if wide else known.value)(text[1:] if negative else text)
        if value is None:
            return None
        total += (1 << bits) - value if negative else value
    if extended:
        if None in carries:
            return None
        total += sum(bool(carry) for carry in carries)
    return total


def _iadd(known: SassRegisters, one: SassInstruction) -> None:
    to, out, operands, into = _split(one)
    wide = "64" in one.modifiers
    carries = [known.predicate(text) for text in into] if "X" in one.modifiers else []
    total = _sum(known, operands, wide, "X" in one.modifiers, carries)
    (known.set_wide if wide else known.set)(to, total)
    bits = 64 if wide else 32
    for n, text in enumerate(out):
        known.set_predicate(text, None if total is None else (total >> bits) > n)


def _imad(known: SassRegisters, one: SassInstruction) -> None:
    to, out, operands, into = _split(one)
    modifiers = one.modifiers
    a, b = known.value(operands[0]), known.value(operands[1])
    is_wide, is_high = "WIDE" in modifiers, "HI" in modifiers
    c = known.wide(operands[2]) if is_wide or is_high else known.value(operands[2])
    carry: bool | None = known.predicate(into[-1]) if "X" in modifiers and into else False
    product: Value = None
    if 0 in (a, b) or (a is not None and b is not None):
        if "U32" not in modifiers and (is_wide or is_high):
            a, b = _signed(a), _signed(b)
        product = 0 if 0 in (a, b) else a * b  # type: ignore[operator]
    total = None if product is None or c is None or carry is None else product + (c if not is_high else 0) + carry
    if is_high:
        low = known.value(operands[2])
        total = None if product is None or low is None else (product >> 32) + low
    if is_wide:
        known.set_wide(to, None if total is None else total & MASK64)
        for text in out:
            known.set_predicate(text, None if total is None else total >> 64 > 0)
    else:
        known.set(to, total)
        for text in out:
            known.set_predicate(text, None)


def _signed(value: Value, bits: int = 32) -> Value:
    return None if value is None else value - (1 << bits) if value >> bits - 1 else value


def _lea(known: SassRegisters, one: SassInstruction) -> None:
    to, out, operands, into = _split(one)
    modifiers = one.modifiers
    if "HI" not in modifiers:
        a = known.value(operands[0])
        b = known.value(operands[1])
        shift = known.value(operands[2])
        total = None if a is None or b is None or shift is None else ((a << shift) & MASK) + b
    else:
        a = known.value(operands[0])
        b = known.value(operands[1])
        shift = known.value(operands[-1])
        if "SX32" in modifiers:
            high: Value = None if a is None else (MASK if a >> 31 else 0)
        else:
            high = known.value(operands[2])
        carry: bool | None = known.predicate(into[-1]) if "X" in modifiers and into else False
        complete = a is not None and b is not None and shift is not None and high is not None and carry is not None
        total = (((high << 32 | a) << shift >> 32) & MASK) + b + carry if complete else None  # type: ignore[operator]
    known.set(to, total)
    for text in out:
        known.set_predicate(text, None if total is None else total >> 32 > 0)


def _shf(known: SassRegisters, one: SassInstruction) -> None:
    to, _, operands, _ = _split(one)
    low, shift, high = (known.value(text) for text in operands)
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
    known.set(to, value)


def _lop3(known: SassRegisters, one: SassInstruction) -> None:
    to, out, operands, into = _split(one)
    a, b, c, table = (known.value(text) for text in operands[:4])
    value: Value = None
    if a is not None and b is not None and c is not None and table is not None:
        value = 0
        for i in range(8):
            if table >> i & 1:
                value |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        value &= MASK
    elif table == 0xC0 and 0 in (a, b):
        value = 0
    known.set(to, value)
    for text in out:
        known.set_predicate(text, None if value is None else value != 0 or known.predicate(into[-1]))


def _plop3(known: SassRegisters, one: SassInstruction) -> None:
    (first, second), inputs = one.operands[:2], [known.predicate(text) for text in one.operands[2:5]]
    for text, table in ((first, one.operands[5]), (second, one.operands[6])):
        value: bool | None = None
        if None not in inputs:
            i = sum(bool(bit) << place for bit, place in zip(inputs, (2, 1, 0), strict=True))
            value = bool(int(table, 0) >> i & 1)
        known.set_predicate(text, value)


_COMPARISONS = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def _isetp(known: SassRegisters, one: SassInstruction) -> None:
    first, second, left, right, *predicates = one.operands
    wide = bool({"U64", "S64"} & one.modifiers)
    a, b = (known.wide(left), known.wide(right)) if wide else (known.value(left), known.value(right))
    bits = 64 if wide else 32
    if not {"U32", "U64"} & one.modifiers:
        a, b = _signed(a, bits), _signed(b, bits)
    comparison = next(name for name in _COMPARISONS if name in one.modifiers)
    found: bool | None = None if a is None or b is None else _COMPARISONS[comparison](a, b)
    if "EX" in one.modifiers and found is not None:
        low = known.predicate(predicates[1])
        if comparison in ("EQ", "NE"):
            found = found and low if comparison == "EQ" else found or low
        elif a == b:
            found = low
    other = known.predicate(predicates[0])
    known.set_predicate(first, _combined(one.modifiers, found, other))
    known.set_predicate(second, _combined(one.modifiers, None if found is None else not found, other))


def _combined(modifiers: frozenset[str], a: bool | None, b: bool | None) -> bool | None:
    if "OR" in modifiers:
        return True if True in (a, b) else None if None in (a, b) else False
    if "XOR" in modifiers:
        return None if None in (a, b) else a != b
    return False if False in (a, b) else None if None in (a, b) else True


def _sel(known: SassRegisters, one: SassInstruction) -> None:
    to, _, operands, into = _split(one)
    chosen = known.predicate(into[-1])
    wide = "64" in one.modifiers
    values = [(known.wide if wide else known.value)(text) for text in operands]
    value = None if chosen is None else values[0 if chosen else 1]
    (known.set_wide if wide else known.set)(to, value)


def _minmax(known: SassRegisters, one: SassInstruction) -> None:
    to, _, operands, into = _split(one)
    wide = bool({"U64", "S64"} & one.modifiers)
    values = [(known.wide if wide else known.value)(text) for text in operands]
    added = one.name.endswith("ADDMNMX")
    if added and None not in values:
        values = [(values[0] + values[1]) & MASK, values[2]]  # type: ignore[operator]
    if not any(name.startswith("U") for name in one.modifiers) and not added:
        values = [_signed(value, 64 if wide else 32) for value in values]
    least = known.predicate(into[0])
    value: Value = None
    if None not in values and least is not None:
        value = (min if least else max)(values)  # type: ignore[type-var]
    (known.set_wide if wide else known.set)(to, None if value is None else value & MASK64)


def _move(known: SassRegisters, one: SassInstruction) -> None:
    to, source = one.operands[0], one.operands[-1]
    if "64" in one.modifiers:
        known.set_wide(to, known.wide(source))
    else:
        known.set(to, known.value(source))


def _permute(known: SassRegisters, one: SassInstruction) -> None:
    """Select bytes of two registers; a selector of 8 or more stands for the sign of its byte."""
    to, *texts = one.operands
    a, selectors, b = (known.value(text) for text in texts)
    value: Value = None
    if a is not None and b is not None and selectors is not None:
        both, value = b << 32 | a, 0
        for i in range(4):
            selector = selectors >> 4 * i & 0xF
            byte = both >> 8 * (selector & 7) & 0xFF
            value |= ((0xFF if byte >> 7 else 0) if selector & 8 else byte) << 8 * i
    known.set(to, value)


def _halves(known: SassRegisters, one: SassInstruction) -> None:
    """Set both halves of a register, which is how the compiler makes constants while other units are busy."""
    to, first, second, *halves = one.operands
    value: Value = None
    if first == "-RZ" and second == "RZ" and len(halves) == 2:
        high, low = (int(np.float16(float(text)).view(np.uint16)) for text in halves)
        value = high << 16 | low
    known.set(to, value)


def _special(known: SassRegisters, one: SassInstruction) -> None:
    to, name = one.operands[0], one.operands[-1]
    if name == "SRZ":
        (known.set if "32" in one.modifiers else known.set_wide)(to, 0)
    else:
        known.set(to, known.special.get(name))


def _load_constant(known: SassRegisters, one: SassInstruction) -> None:
    to, source = one.operands
    if source.startswith("c["):
        words = 4 if "128" in one.modifiers else 2 if "64" in one.modifiers else 1
        name = to.split(".")[0]
        for i in range(words):
            value = known.constant(source, 4 * i)
            known.set(name, None if value is None else value & 0xFF if "U8" in one.modifiers else value)
            name = next_register(name)
    else:
        known.forget(one)


def _load(known: SassRegisters, one: SassInstruction) -> None:
    to, source = one.operands[0], one.operands[-1]
    address = known.address(source, is_wide="E" in one.modifiers)
    size = (
        8
        if "64" in one.modifiers
        else 1
        if {"U8", "S8"} & one.modifiers
        else 2
        if {"U16", "S16"} & one.modifiers
        else 4
    )
    for base, content in known.memory.items():
        if address is not None and base <= address <= base + len(content) - size:
            block = content[address - base : address - base + size]
            value = int.from_bytes(block, "little", signed=bool({"S8", "S16"} & one.modifiers))
            (known.set_wide if size == 8 else known.set)(to, value & MASK64)
            return
    known.forget(one)


def _convert(known: SassRegisters, one: SassInstruction) -> None:
    """Compute a step of integer division by a reciprocal, the only use with a known input."""
    to, source = one.operands[0], one.operands[-1]
    value = known.value(source)
    if value is None or not {"U32", "RCP"} & one.modifiers:
        known.forget(one)
        return
    if one.name.endswith("F2I"):
        found = int(_float(value))
    else:
        number = np.float32(value) if one.name.endswith("I2F") else np.float32(1) / _float(value)
        found = int(np.float32(number).view(np.uint32))
    known.set(to, found)


def _float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _fchk(known: SassRegisters, one: SassInstruction) -> None:
    known.set_predicate(one.operands[0], False)  # True only for special operands, such as denormals


def _pack(known: SassRegisters, one: SassInstruction) -> None:
    """Set the bits of a mask to predicates, which the compiler keeps in a register."""
    to = one.operands[0]
    source = known.value(one.operands[-2])
    mask = int(one.operands[-1], 0)
    bits = {i: known.predicate(f"P{i}") for i in range(7) if mask >> i & 1}
    known_bits = source is not None and None not in bits.values()
    known.set(to, (source & ~mask) | sum(bool(bit) << i for i, bit in bits.items()) if known_bits else None)  # type: ignore[operator]


def _unpack(known: SassRegisters, one: SassInstruction) -> None:
    value, mask = known.value(one.operands[1]), int(one.operands[-1], 0)
    for i in range(7):
        if mask >> i & 1:
            known.set_predicate(f"P{i}", None if value is None else bool(value >> i & 1))


def _iabs(known: SassRegisters, one: SassInstruction) -> None:
    value = _signed(known.value(one.operands[1]))
    known.set(one.operands[0], None if value is None else abs(value))


ACTIONS: dict[str, Callable[[SassRegisters, SassInstruction], None]] = {
    "IADD3": _iadd, "IADD": _iadd, "VIADD": _iadd, "IMAD": _imad, "LEA": _lea, "SHF": _shf, "LOP3": _lop3,
    "PLOP3": _plop3, "ISETP": _isetp, "SEL": _sel, "IMNMX": _minmax, "VIMNMX": _minmax, "VIADDMNMX": _minmax,
    "MOV": _move, "R2UR": _move, "S2R": _special, "S2UR": _special, "CS2R": _special,
    "LDC": _load_constant, "LDCU": _load_constant, "ULDC": _load_constant, "LDG": _load, "LD": _load,
    "IABS": _iabs, "HFMA2": _halves, "PRMT": _permute, "FCHK": _fchk,
    "P2R": _pack, "R2P": _unpack,
    "I2F": _convert, "F2I": _convert, "MUFU": _convert,
}  # fmt: skip
