"""Hand-written implementations of the workloads in other libraries, named WORKLOAD_LIBRARY.

``churn_``     `benchmarks.device.workload` from end to end in pandas, polars and cuDF; scripts of their own
``features_``  the features of `benchmarks.cluster.workload` in dask.dataframe
``keyed_``     the columns of `benchmarks.keyed` in pandas and polars
"""
