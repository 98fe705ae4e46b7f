"""Programs that measure gpupipe, run from the checkout as ``python -m benchmarks.<name>``; not in the wheel.

``batches``    mini-batches beside PyTorch's loaders
``cluster``    features by several processes beside dask.dataframe, under a memory limit, and with killed workers
``device``     everything worth measuring on a GPU machine
``encodings``  gradient boosting on one-hot columns and on integer codes
``faults``     what runs leave behind when killed, when the disk fills up, or when they run concurrently
``floor``      features beside the bandwidth of the memory
``isolation``  the cost of ``isolate: true``
``keyed``      keyed features beside pandas and polars
``starter``    the scores of ``gpupipe init`` beside plain scikit-learn
``peers``      the hand-written implementations that several of them compare with

`gpupipe.bench` provides what they share with ``gpupipe bench``: the clock, child processes and the machine's
description.
"""
