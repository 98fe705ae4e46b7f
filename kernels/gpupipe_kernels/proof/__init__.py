"""What proves the kernels: fuzzing against twins, machine code, occupancy; and compiling them ahead."""
