"""Features by compiled kernels on both processors: pure functions on arrays that know nothing of frames or models.

Programs, which hold all row-wise features of a configuration:

``opcodes``          what an instruction may say
``program``          the instruction table and its lookup tables: numbers only
``interpret_numpy``  the interpreter in blocked, threaded NumPy: the readable reference, with nothing to compile
``interpret_cpu``    the interpreter compiled for the host, where it pays (``choice``)
``interpret_cuda``   the interpreter for the device: one launch
``schedule``         a program in the order and form in which the compiled ones run it

Formulas of both compiled interpreters: ``cells``, ``angle``, ``distance``, ``logarithm``, ``power``, ``moments``.

Features that need more than their row: ``keyed`` (over time, per key), ``text`` (n-grams and counts), ``reduce`` (what
a fit learns from all rows). Kernels of users: ``user``.

Every kernel, and its proof:

``contract``         what is declared of a kernel; ``catalog``: all of them
``launch``           how formulas and loops are compiled, kept (``code_cache``) and launched; ``warm``: all ahead
``fuzz``             kernels against their references, on the host and on the device or in the simulator
``machine_code``     registers, spills and float64 of device loops, for real GPUs and without one; ``occupancy``
"""
