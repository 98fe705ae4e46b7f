"""The feature program and its interpreters: pure functions on arrays that know nothing of frames or models.

``opcodes``          what an instruction may say
``program``          the instruction table and its lookup tables: numbers only
``calendar``         parts of a time stamp, by integer arithmetic
``hashing``          hashes of level strings and of pairs of them
``interpret_numpy``  the interpreter in blocked, threaded NumPy: the readable reference, and the CPU's default
"""
