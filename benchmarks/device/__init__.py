"""Measurements for a GPU machine, the most valuable first: ``python -m benchmarks.device``.

``steps``        the steps and their time limits; ``processes``: their child processes; ``results``: what they write
``program``      one fused launch beside the copy bandwidth; ``keyed``: keyed features beside cuDF's
``comparisons``  features and models beside the CPU's, made by ``parity``; ``cpu_metrics``: the CPU's half in advance,
``recorded_metrics`` reads it
``suite``        the tests that need a GPU; ``cluster``: workers beside one process
``end_to_end``   the ``workload`` from end to end: gpupipe beside `benchmarks.peers`
"""
