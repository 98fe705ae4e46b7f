"""The main job and what it leaves behind. `run` is the story, top to bottom; the rest are its chapters.

``reading``      files to the encoded table
``target``       which task the target asks for
``job``          the table of a run; models competing on the same rows
``leaderboard``  validation, folds, the best model
``training``     features and models of one set of rows
``decision``     calibration and threshold
``export``       a model to its directory;  ``model`` back again, and its predictions;  ``copying`` to another one
``parity``       what the training side made of some rows, replayed wherever the model is loaded
``explain``      importances;  ``writeup`` the figures of the report
``plan``         what a run would do and need, before it runs
``rundir``       the run directory, whose files ``run_files`` lists; an ``atomic_directory``, complete or absent, by
                 ``drafts`` and ``renaming``;  ``disk`` room for it
``atomic``       files that appear complete, or not at all;  ``run_inputs`` what no output may touch
``stages``       what a run keeps for the one that takes its place;  ``stopping`` where it may end early
``timeline``     what each stage did;  ``console`` and ``log`` listen to it
``api``          `Pipeline`, for programs, and its ``arguments``;  ``result`` the `Run` that it returns
"""
