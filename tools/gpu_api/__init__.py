"""RAPIDS' public API without RAPIDS: snapshots of the releases that the extras allow, and a check of code against them.

``snapshot``    writes a snapshot: ``python -m tools.gpu_api.snapshot OUT.json.gz``, where RAPIDS is installed
``signatures``  parameters and results of a callable as text, and back
``api``         reads a snapshot; ``checker`` and ``calls`` compare what a file uses of RAPIDS with it

`snapshot` and `signatures` need nothing but Python's standard library.
"""
