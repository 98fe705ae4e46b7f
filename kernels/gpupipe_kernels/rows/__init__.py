"""One row, or a few: the feature program and tree ensembles in the form that answers a single row fastest.

``lowering``      the program in register form, ordered so that equal instructions are neighbors
``records``       the cells of rows in memory
``row_program``   runs it, in NumPy or compiled
``row_loops``     the compiled loops
``trees``         tree ensembles packed for a walk; ``trees_numpy`` and ``trees_numba`` walk them
``links``         transforms of sums to predictions, with ``libm``'s exp
``column_sums``   sums over columns in one order, in NumPy; ``dot``: compiled dot products
``warm_up``       compilation ahead of the first use
"""
