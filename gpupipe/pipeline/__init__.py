"""The main job and the files that it leaves behind: `gpupipe.pipeline.run.run_pipeline` runs it from start to end.

``read_stage``      files to the encoded table
``target``          the task that the target asks for
``preparation``     the job of a run: table, target, folds, models
``job``             the job, and candidates trained on the same rows
``leaderboard``     validation, folds, the champion
``training``        features and models of one set of rows
``decision``        calibration and threshold
``model``           a model to its directory and back, and its predictions
``parity``          outputs of some rows, recorded in training and replayed wherever the model is loaded
``explanation``     importances and plots;  ``directions`` how predictions vary with a column
``run_report``      the report of a run
``imports``         imports of libraries, timed outside of the stages
``plan``            the stages and memory of a run, before it runs
``scoring``         batch scoring
``untrusted``       models of unknown origin, in a child process with limits
``rundir``          the run directory, and run.json, which lists its files
``atomic``          files and directories that appear complete or not at all
``run_inputs``      files that no output may overwrite
``checkpoints``     run checkpoints, used by --resume
``limits``          memory, time, energy and cost;  ``safe_points`` where a run may stop early
``timeline``        the stages of a run;  ``display`` and ``log`` listen to it
``api``             `Pipeline`, for programs, and its ``arguments``;  ``result`` the `Run` that it returns
"""
