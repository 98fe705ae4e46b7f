"""Measurements on a GPU machine, the most valuable first: ``python -m benchmarks.device``.

``steps``        the steps and their time limits; ``processes``: their child processes; ``results``: their output files
``probes``       first checks of the machine; ``suite``: the tests that need a GPU
``program``      one fused launch relative to the copy bandwidth; ``profilers``: hardware counters, compute-sanitizer
``end_to_end``   the ``workload`` from end to end: gpupipe compared with `benchmarks.peers`
``comparisons``  features and models compared with the CPU's, computed by ``parity``; ``networks``: in two precisions
``cpu_metrics``  the CPU's metrics, computed in advance and read by ``recorded_metrics``
``keyed``        keyed features compared with cuDF's; ``cluster``: workers compared with one process
"""
