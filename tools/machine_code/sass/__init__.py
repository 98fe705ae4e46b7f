"""Interpreter of NVIDIA machine code for one thread, to count the instructions that it executes."""

from tools.machine_code.sass.code import SassCode, SassInstruction, constant_words
from tools.machine_code.sass.registers import SassRegisters
from tools.machine_code.sass.thread import SassThread

__all__ = ["SassCode", "SassInstruction", "SassRegisters", "SassThread", "constant_words"]
