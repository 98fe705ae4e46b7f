"""Machine code of an NVIDIA GPU, followed for one thread to count the instructions that it executes."""

from gpupipe_kernels.proof.sass.code import Code, Instruction, constant_words
from gpupipe_kernels.proof.sass.registers import Registers
from gpupipe_kernels.proof.sass.thread import Thread

__all__ = ["Code", "Instruction", "Registers", "Thread", "constant_words"]
