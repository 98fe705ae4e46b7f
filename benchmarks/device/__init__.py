"""Measurements on a GPU machine, the most valuable first: ``python -m benchmarks.device``.

``steps``        the steps and their time limits; ``processes``: their child processes; ``results``: their output files
``program``      one fused launch relative to the copy bandwidth; ``keyed``: keyed features compared with cuDF's
``comparisons``  features and models compared with the CPU's, computed by ``parity``; ``cpu_metrics``: the CPU's
metrics,
                 computed in advance and read by ``recorded_metrics``
``suite``        the tests that need a GPU; ``cluster``: workers compared with one process
``end_to_end``   the ``workload`` from end to end: gpupipe compared with `benchmarks.peers`
"""
