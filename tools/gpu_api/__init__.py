"""Snapshots of RAPIDS' public API, and a checker of code against them that runs without RAPIDS.

``snapshot``    writes a snapshot where RAPIDS is installed: ``python -m tools.gpu_api.snapshot OUT.json.gz``
``signatures``  converts parameters and results of a callable to text and back
``api``         reads a snapshot; ``checker`` and ``calls`` compare a file's use of RAPIDS with it

`snapshot` and `signatures` need only the standard library.
"""
