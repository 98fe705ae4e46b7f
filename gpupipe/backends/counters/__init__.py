"""Hardware counters of the machine and of its GPUs, and their samples over a run."""
