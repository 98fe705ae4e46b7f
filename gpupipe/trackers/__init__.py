"""Logging of runs to experiment trackers: MLflow and Weights & Biases.

``run_tracker``     the listener of a run, which turns stages and results into messages
``records``         parameters, metrics and data identity of a run as plain values
``connection``      one tracker of a run, with its warnings;  ``process`` its child process, which never blocks the run
``worker``          main module of that child: it sends messages to the tracker, and again after a failure
``tracker``         interface of a tracker;  ``mlflow_tracker``, ``wandb_tracker``

Only the child imports the library of a tracker. So its settings, threads and handlers never touch the user's process,
a hang ends with the child, and the tracked run is ended as killed when the run itself is killed.
"""
