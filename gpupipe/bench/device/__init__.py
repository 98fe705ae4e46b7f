"""``python -m gpupipe.bench.device``: the measurements worth making on a GPU machine, the most valuable first.

``steps``        the steps and their time limits; ``child``: their child processes; ``results``: what they write
``program``      one fused launch beside the copy bandwidth; ``keyed``: keyed features beside cuDF's
``comparisons``  features and models beside the CPU's, made by ``parity``; ``cpu_metrics``: the CPU's half in advance,
``recorded_metrics`` reads it
``suite``        the tests that need a GPU; ``cluster``: workers beside one process
``contest``      the ``work`` from end to end: ours beside ``handwritten``, ``peer_polars``, ``peer_pandas``
"""
