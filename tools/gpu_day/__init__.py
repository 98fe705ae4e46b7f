"""Measurements on an offline GPU machine that is lent for 15 minutes.

``schedule``  the visits: what travels, which steps of `benchmarks.device` run, in how many seconds
``pack``      on a machine with network: wheels, tables and CPU metrics, in folders that fit with the repository
``wheels``    consistent wheels, and their installation without unneeded files; ``fatbin``: of one GPU architecture
``visit``     on the GPU machine: unpack what has arrived, and run the steps; ``toolkit``: find the machine's CUDA
``startup``   becomes sitecustomize.py of the unpacked folder
``table``     the results of all visits as a table

`visit`, `schedule` and `toolkit` need only the standard library.
"""
