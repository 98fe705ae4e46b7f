"""Checks of the kernels: fuzzing against references, machine code and occupancy; and compilation ahead of a run."""
