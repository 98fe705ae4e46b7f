"""Random bits as a function of (seed, stream, row), identical on CPU and GPU."""
