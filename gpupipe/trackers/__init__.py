"""Logging of runs to experiment trackers: MLflow and Weights & Biases.

Only the child imports the library of a tracker. So its settings, threads and handlers never touch the user's process,
a hang ends with the child, and the tracked run is ended as killed when the run itself is killed.
"""
