"""Text kernels in compiled, multithreaded loops on the host."""
