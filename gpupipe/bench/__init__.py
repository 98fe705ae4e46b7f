"""Measure a configuration, cold and warm, against hand-written peers. `card` is the story; the rest are its chapters.

``inputs``      which table is measured, and the file that peers are given
``choice``      which model is trained, and what peers call it
``contestants`` ours and the peers: how each is started
``clock``       seconds of a stage
``process``     one process: its wall time, its processor time, what it reports
``worker``      what our processes run: ``stages``, ``extras`` and ``encodings`` are its tasks
``sample``      one measured run: what a peer's JSON holds
``figures``     the rows of the table: medians and ratios
``machine``     what it was measured on
``render``      the tables as people read them
``floor``       how near features come to the memory's bandwidth, by itself
``starter``     scores of ``gpupipe init`` beside plain scikit-learn, by itself
``keyed``       keyed features beside pandas and polars, by itself
``device``      everything worth doing on a GPU machine, by itself
"""
