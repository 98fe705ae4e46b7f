"""The encoded table: its columns (`schema`), their memory (`blocks`), and the ways to make one.

- ``encode``: Arrow table to encoded table, inferring the schema or enforcing a frozen one
- ``encode_chunks``: the same for a table that arrives in chunks; ``column_summary``: its first pass
- ``string_columns``, ``numeric_columns``, ``time_columns``: values of each kind; ``time_formats``: formats of times
- ``frames``: frames of any library as Arrow tables; ``keys``: join keys as integer codes
- ``arrange``: row selections, and the same rows under another schema
- ``device``: a frame on a device to the same encoded table
"""
