"""Run checkpoints, used by --resume.

``keys``             hashes of everything that the result of a stage depends on
``store``            the folder of the checkpoints, ``.checkpoints`` beside the run directories
``contents``         features and trained models as files: those of a model directory, no pickle
``run_checkpoints``  the checkpoints of one run: which are loaded, and when they are saved
"""
