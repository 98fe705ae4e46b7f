"""Logging of runs to experiment trackers: MLflow and Weights & Biases.

``run_tracker``     the listener of a run, which turns stages and results into messages
``records``         parameters, metrics and data identity of a run as plain values
``connection``      one tracker of a run: its warnings, and the thread that sends messages, again after a failure
``worker``          main module of the child process that passes them to the tracker
``tracker``         interface of a tracker;  ``mlflow_tracker``, ``wandb_tracker``

Only the child imports the library of a tracker. So its settings, threads and handlers never touch the user's process,
a hang ends with the child, and the tracked run is ended as killed when the run itself is killed.
"""
