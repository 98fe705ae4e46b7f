"""The feature program and its interpreters: pure functions on arrays that know nothing of frames or models.

``opcodes``          what an instruction may say
``program``          the instruction table and its lookup tables: numbers only
``calendar``         parts of a time stamp, by integer arithmetic
``hashing``          hashes of level strings and of pairs of them
``interpret_numpy``  the interpreter in blocked, threaded NumPy: the readable reference, and the CPU's default
``interpret_cpu``    the interpreter compiled for the host, where it pays (``choice``)
``interpret_cuda``   the interpreter for the device: one launch
``schedule``         a program in the order and form in which the compiled ones run it
``launch``           how formulas and loops are compiled, kept and launched
"""
