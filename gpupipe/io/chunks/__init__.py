"""Chunked reading: sources split into row groups, stripes or line ranges that are read one by one."""
