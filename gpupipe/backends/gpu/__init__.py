"""The GPU backend, the only package that imports cuDF, CuPy and cuML besides `gpupipe.dask.cuml`."""
