"""``python -m gpupipe.bench.device``: everything worth doing on a GPU machine, the most valuable first.

``steps``    what is done, each in a process with a time limit; ``results``: what they leave, written after each
``program``  the fused launch beside the copy bandwidth; ``keyed``: keyed features beside cuDF; ``parity``: the CPU
``contest``  a whole run beside those who do the same ``work``: ``handwritten`` cuDF, ``peer_polars``, ``peer_pandas``
"""
