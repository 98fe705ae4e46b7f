"""Features by compiled kernels on both processors: pure functions on arrays that know nothing of frames or models.

Programs, which hold all row-wise features of a configuration:

``program``       the instruction set, the instruction table and its lookup tables: numbers only
``interpreters``  NumPy, the readable reference; compiled for the host; one launch on the device
``formulas``      the scalar formulas that the compiled ones share

Features that need more than their row: ``keyed`` (over time, per key), ``text`` (n-grams and counts), ``reduce`` (what
a fit learns from all rows). Kernels of users: ``user``.

Every kernel, and its proof:

``contract``      what is declared of a kernel; ``catalog``: all of them; ``reference``: formulas in float64 NumPy
``launch``        how formulas and loops are compiled, kept (``code_cache``) and launched; ``threads``: host blocks
``engines``       what computes on the host
``typing``        arrays on the host, on a device, or on either
``private_folders``  whether another user could change a folder, from which nothing is loaded then
``toolchain``     the libraries that compile device code, and where numba-cuda finds them
``numpy_compat``  what numba-cuda needs of NumPy and recent releases no longer have
``proof``         fuzzing against references, machine code for real GPUs without one, compiling everything ahead
"""
