"""Parser of machine code printed by nvdisasm."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

PREDICATE = re.compile(r"!?U?P(?:\d|T)$")

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*(?:\(\*.*\*\))?;")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_SECTION = re.compile(r"^\.text\.(\S+):")


@dataclass(frozen=True)
class SassInstruction:
    """One instruction: its guard, its opcode with modifiers, and its operands as nvdisasm prints them."""

    address: int
    guard: str
    name: str
    modifiers: frozenset[str]
    operands: tuple[str, ...]


@dataclass
class SassCode:
    """A disassembled kernel.

    Attributes
    ----------
    instructions : list of SassInstruction
    labels : dict of str to int
        Label to the position of the instruction that follows it.
    """

    instructions: list[SassInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> SassCode:
        """Return the code parsed from the output of ``nvdisasm -c``."""
        code, inside = SassCode(), False
        for line in text.splitlines():
            inside = inside or bool(_SECTION.match(line))
            if inside and (label := _LABEL.match(line)):
                code.labels[label[1]] = len(code.instructions)
            elif inside and (found := _LINE.match(line)):
                code.instructions.append(_instruction(int(found[1], 16), found[2]))
        return code


def _instruction(address: int, text: str) -> SassInstruction:
    guard = ""
    if text.startswith("@"):
        guard, text = text[1:].split(None, 1)
    name, _, rest = text.partition(" ")
    base, *modifiers = name.split(".")
    operands = tuple(part.strip().replace(".reuse", "") for part in rest.split(",")) if rest.strip() else ()
    return SassInstruction(address, guard, base, frozenset(modifiers), operands)


def constant_words(cubin: bytes) -> dict[tuple[int, int], int]:
    """Return the words of a cubin's constant banks, such as its jump tables."""
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
