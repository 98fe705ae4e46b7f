"""Feature kernels for CPU and GPU: pure functions on arrays, independent of data frames and models.

Programs, which compute all row-wise features of a configuration:

``program``       the instruction set, the instruction table and its lookup tables; numeric data only
``interpreters``  NumPy, the readable reference, and one launch on the device
``formulas``      the scalar formulas shared by the compiled interpreters

Other kernels: ``keyed`` (features over time, per key), ``rows`` (single rows), ``shapley`` (contributions), ``draws``
(random bits), ``text`` (n-grams and counts), ``reduce`` (statistics that a fit learns from all rows), ``user``
(user-written kernels).

Declaration, compilation and verification:

``contract``      kernel declarations; ``catalog``: all kernels by name; ``reference``: formulas in float64 NumPy
``launch``        compilation and launch of formulas and loops; ``code_cache``: compiled code on disk; ``threads``: host
                  threads
``device``        device arrays, arguments of device loops, compilation, and the machine code in ``compiled``
``engines``       choice of the host engine
``typing``        types of arrays on the host, on a device, or on either
``private_folders``  detection of folders that other users can modify; nothing is loaded from these
``toolchain``     location of the libraries that compile device code
``numpy_compat``  NumPy names that numba-cuda needs and recent NumPy releases removed
``proof``         fuzzing against references, machine code for GPUs without a GPU, ahead-of-time compilation
"""
