"""Text kernels in NumPy: the readable reference, without compilation."""
