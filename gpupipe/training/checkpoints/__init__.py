"""Run checkpoints, used by --resume.

``keys``             hashes of everything that the result of a stage depends on
``store``            the folder of checkpoints, ``.checkpoints`` next to the run directories
``contents``         features and trained models as files of the model format, without pickle
``run_checkpoints``  the checkpoints of one run: which are loaded, and when they are saved
"""
