"""``gpupipe bench``: measure a configuration, cold and warm, against hand-written peers.

``measurement``   the whole measurement, and its document
``inputs``        the table that is measured, and the file that peers are given
``models``        the model that is trained, and what peers call it
``runners``       gpupipe and the peers: how each is started
``process``       one child process: its wall time, its processor time, its report
``child``         what gpupipe's own child processes run: the tasks of ``stages``
``clock``         seconds of a stage
``sample``        one measured run: the JSON of a peer
``figures``       the rows of the tables: medians and ratios
``machine``       what it was measured on
``tables``        the document as text
"""
