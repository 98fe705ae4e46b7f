"""The encoded table: what a column is (`schema`), how columns lie in memory (`blocks`), and how they get there.

``encode``   Arrow table to encoded table, inferring the schema or enforcing a frozen one
``strings``  dictionary-encoded strings to codes
``numbers``  numbers, and text that holds numbers
``times``    time stamps, and text or numbers that hold them
``spans``    durations and dates as a configuration writes them
``arrange``  row selections, and the same rows under another schema

``encode_frame``    a frame on a device to the same encoded table
``device_columns``  its columns as arrays
"""
