"""Measurements on an offline GPU machine: pack the missing libraries, carry them there in parts, unpack and measure.

``pack``      on a machine with network: wheels, public tables and CPU metrics, in parts that fit with the repository
``wheels``    download wheels, install and prune them; ``fatbin``: keep the machine code of one GPU architecture
``archive``   reproducible archives, cut into parts
``visit``     on the GPU machine: unpack the part of a visit and run its steps
``unpack``    unpack the stages that have arrived; ``toolkit``: find the machine's CUDA; ``probes``: first checks
``startup``   becomes sitecustomize.py of the unpacked folder

`visit`, `unpack` and `toolkit` need only the standard library.
"""
