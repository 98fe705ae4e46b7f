"""A day on an offline GPU machine: pack what it lacks, carry it there in parts, unpack and measure.

``pack``      on a machine with network: wheels, public tables and CPU metrics, in parts that fit beside the repository
``wheels``    download wheels, install and prune them; ``fatbin``: keep the machine code of one GPU architecture
``archive``   reproducible archives, cut into parts
``visit``     on the GPU machine: unpack the part of a visit and run what the visit is for
``unpack``    unpack the stages that have arrived; ``toolkit``: find the machine's CUDA; ``probes``: first questions
``startup``   becomes sitecustomize.py of the unpacked folder

`visit`, `unpack` and `toolkit` need nothing but Python's standard library.
"""
