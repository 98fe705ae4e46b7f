"""Runs that are killed, run out of disk space or run concurrently: ``python -m benchmarks.faults``.

``injection``   the faults; ``runs``: start a run, and compare its files with those of an undisturbed run
"""
