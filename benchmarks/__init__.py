"""Benchmarks of gpupipe, run from the checkout as ``python -m benchmarks.<name>``; not part of the wheel.

``answers``    scores within a time limit on many tables, compared with AutoGluon, FLAML, skrub and scikit-learn
``batches``    mini-batches compared with PyTorch's loaders
``cluster``    features computed by several processes: compared with dask.dataframe, under a memory limit, and with
               killed workers
``device``     all measurements on a GPU machine
``encodings``  gradient boosting on one-hot columns and on integer codes
``faults``     the files of runs that are killed, run out of disk space or run concurrently
``floor``      features compared with the memory bandwidth
``isolation``  the cost of ``isolate: true``
``keyed``      keyed features compared with pandas and polars
``lists``      indicators of the items of lists compared with Arrow and pandas
``serving``    predictions over HTTP, compared with FastAPI; its ``soak`` is minutes of load with a reload and a killed
               worker
``single_row`` the time of a single prediction, compared with scikit-learn, skrub and ONNX Runtime
``starter``    scores of ``gpupipe init`` compared with plain scikit-learn
``startup``    whole processes of commands on small tables, compared with the imports that they need
``peers``      hand-written implementations for the comparisons

`gpupipe.bench` provides the code shared with ``gpupipe bench``: the clock, child processes and the description of the
machine.
"""
