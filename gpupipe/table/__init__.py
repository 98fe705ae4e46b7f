"""The encoded table: its columns (`schema`), its memory (`blocks`), and its construction.

- ``encode``: Arrow table to encoded table, inferring the schema or enforcing a frozen one
- ``encode_chunks``: the same for a table read in chunks; ``column_summary``: its first pass
- ``string_columns``, ``numeric_columns``, ``time_columns``: encoding of each kind; ``hash_buckets``: codes of hashed
  columns
- ``time_texts``: the meaning of a text or number in a time format; ``time_formats``: inference of formats, and advice;
  ``temporal_objects``: times of Python and NumPy
- ``frames``: conversion of data frames to Arrow tables; ``keys``: conversion of join keys to integer codes
- ``arrange``: row selections, and the same rows under another schema
- ``device``: data frame in device memory to the same encoded table
"""
