"""Verification of the kernels by fuzzing, machine code and occupancy, and ahead-of-time compilation."""
