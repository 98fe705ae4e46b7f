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
``device``      everything worth doing on a GPU machine, by itself: ``device_steps`` are its steps, ``device_results``
                what they leave; ``device_program``, ``device_keyed`` and ``device_parity`` measure
``gpu_work``    the work of the contest on a GPU machine, ``gpu_contest``; ``gpu_handwritten``, ``gpu_peer_polars`` and
                ``gpu_peer_pandas`` do it
``keyed``       keyed features beside pandas and polars, by itself; ``keyed_contest`` is one contestant's process,
                ``keyed_events`` the log, ``keyed_ours``, ``keyed_pandas`` and ``keyed_polars`` the columns
"""
