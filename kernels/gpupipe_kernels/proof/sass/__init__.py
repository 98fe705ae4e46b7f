"""Machine code of an NVIDIA GPU, followed for one thread to count the instructions that it executes."""

from gpupipe_kernels.proof.sass.code import SassCode, SassInstruction, constant_words
from gpupipe_kernels.proof.sass.registers import SassRegisters
from gpupipe_kernels.proof.sass.thread import SassThread

__all__ = ["SassCode", "SassInstruction", "SassRegisters", "SassThread", "constant_words"]
