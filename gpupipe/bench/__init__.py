"""``gpupipe bench``: measure a configuration, cold and warm, against hand-written peer scripts.

``measurement``   the whole measurement, and its result document
``inputs``        the tables to measure, and the file for the peers
``models``        the model to train, and its name in the peer protocol
``runners``       processes of gpupipe and of the peers
``process``       one child process: wall time, CPU time, result
``child``         entry point of gpupipe's child processes: the tasks of ``stages``
``clock``         seconds of a stage
``sample``        one measured run: the JSON of a peer
``figures``       rows of the result tables: medians and ratios
``machine``       description of the machine and the device
``tables``        the result document as text
"""
