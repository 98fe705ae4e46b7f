"""Known registers, predicates, constants and memory of a thread."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.machine_code.sass.code import PREDICATE, SassInstruction

MASK, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
Value = int | None
"""32 or 64 bits; None if unknown."""


class SassRegisters:
    """State of a thread: registers, predicates, constants and memory.

    Parameters
    ----------
    constants : mapping of (int, int) to int
        Constant bank and offset in bytes to a word; launch dimensions and arguments are in bank 0.
    memory : mapping of int to bytes
        Address of an array to its contents.
    special : mapping of str to int
        Special registers, such as ``SR_CTAID.Y``.

    Attributes
    ----------
    words : dict of str to int or None
        Register to its 32 bits; None if unknown.
    predicates : dict of str to bool or None
    """

    def __init__(
        self, constants: Mapping[tuple[int, int], int], memory: Mapping[int, bytes], special: Mapping[str, int]
    ) -> None:
        self.constants = constants
        self.memory = memory
        self.special = special
        self.words: dict[str, Value] = {}
        self.predicates: dict[str, bool | None] = {}

    def predicate(self, text: str) -> bool | None:
        name = text.lstrip("!")
        value = True if name in ("PT", "UPT") else self.predicates.get(name)
        return value if value is None or not text.startswith("!") else not value

    def value(self, text: str) -> Value:
        if text.startswith("-") and not re.match(r"-0x|-\d", text):
            value = self.value(text[1:])
            return None if value is None else -value & MASK
        if text.startswith("~"):
            value = self.value(text[1:])
            return None if value is None else ~value & MASK
        if re.match(r"-?0x[0-9a-f]+$", text) or re.match(r"-?\d+$", text):
            return int(text, 0) & MASK
        if text.startswith("c["):
            return self.constant(text, 0)
        name = text.split(".")[0]
        return 0 if name in ("RZ", "URZ", "SRZ") else self.words.get(name)

    def wide(self, text: str) -> Value:
        """Return the 64 bits of a register pair."""
        if re.match(r"-?0x[0-9a-f]+$", text):
            return int(text, 16) & MASK64
        if text.startswith("c["):
            low, high = self.constant(text, 0), self.constant(text, 4)
        elif text.startswith(("-", "~")):
            value = self.wide(text[1:])
            return None if value is None else (-value if text[0] == "-" else ~value) & MASK64
        else:
            name = text.split(".")[0]
            low, high = self.value(name), self.value(next_register(name))
        return None if low is None or high is None else low | high << 32

    def constant(self, text: str, more: int) -> Value:
        bank, inner = re.match(r"c\[(\w+)\]\[(.*)\]$", text).groups()  # type: ignore[union-attr]
        offset = more
        for part in inner.split("+"):
            value = self.value(part)
            if value is None:
                return None
            offset += value
        return self.constants.get((int(bank, 16), offset & MASK))

    def address(self, text: str, is_wide: bool = False) -> Value:
        """Return the address in ``[R28.64+0xc]``, ``desc[UR24][R28.64+0xc]`` or ``[R2+UR4]``.

        Turing's ``[R4+0x200]`` is a register pair if `is_wide`.
        """
        inner = text[text.rindex("[") + 1 : -1]
        total = 0
        for part in inner.replace("+-", "+-").split("+"):
            is_pair = part.endswith(".64") or (is_wide and ".64" not in inner and "R" in part)
            value = self.wide(part) if is_pair else self._signed_part(part)
            if value is None:
                return None
            total += value
        return total & MASK64

    def _signed_part(self, text: str) -> Value:
        return int(text, 0) if re.match(r"-?0x", text) else self.value(text)

    def set(self, name: str, value: Value) -> None:
        name = name.split(".")[0]
        if name not in ("RZ", "URZ"):
            self.words[name] = None if value is None else value & MASK

    def set_wide(self, name: str, value: Value) -> None:
        name = name.split(".")[0]
        self.set(name, value)
        if name not in ("RZ", "URZ"):
            self.set(next_register(name), None if value is None else value >> 32)

    def set_predicate(self, name: str, value: bool | None) -> None:
        if name not in ("PT", "UPT"):
            self.predicates[name] = value

    def forget(self, one: SassInstruction) -> None:
        """Mark the registers that an instruction writes as unknown: it is not computed, or may not be executed."""
        if not one.operands or one.name in ("STG", "STS", "ST", "BAR", "NOP", "BSSY", "BSYNC", "WARPSYNC", "MEMBAR"):
            return
        for text in one.operands[:3] if PREDICATE.match(one.operands[0]) else one.operands[:1]:
            if PREDICATE.match(text):
                self.set_predicate(text.lstrip("!"), None)
        if not PREDICATE.match(one.operands[0]) and re.match(r"U?R", one.operands[0]):
            n = 4 if "128" in one.modifiers else 2 if _writes_pair(one) else 1
            name = one.operands[0].split(".")[0]
            for _ in range(n):
                self.set(name, None)
                name = next_register(name) if name not in ("RZ", "URZ") else name
            for text in one.operands[1:3]:
                if PREDICATE.match(text) and not text.startswith("!"):
                    self.set_predicate(text, None)


def next_register(name: str) -> str:
    """Return the name of the next register."""
    kind, number = re.match(r"(U?R)(\d+|Z)$", name).groups()  # type: ignore[union-attr]
    return name if number == "Z" else f"{kind}{int(number) + 1}"


def _writes_pair(one: SassInstruction) -> bool:
    return bool({"64", "WIDE", "F64", "U64", "S64"} & one.modifiers) or one.name.startswith("D")
