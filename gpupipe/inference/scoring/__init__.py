"""Batch scoring: a table in, predictions out.

``local``     on one machine, into a file
``cluster``   on the workers of a cluster, into a folder
``bad_rows``  handling of rows that cannot be scored
``outputs``   columns and files of the result
``summary``   what the command reports
"""
