"""Runs and the files that they write; the entry point is `gpupipe.pipeline.run.run_pipeline`.

``read_stage``      reading of files into the encoded table
``target``          target column, and the task inferred from it
``preparation``     preparation of a job: table, target, folds, models
``job``             the job, and candidates trained on the same rows
``selection``       choice of the champion, by validation or folds;  ``leaderboard`` its ranking
``selection_checks`` rows that cannot be learned from, found before the first training
``latency``         latency of single rows;  ``candidate_latency`` that of a candidate
``training``        features and models of one set of rows
``decision``        calibration and threshold;  ``held_out_decisions`` those learned from held-out rows
``model``           export, model card, loading and prediction of models
``parity``          outputs of some rows, recorded in training and compared wherever the model is loaded
``explanation``     importances and plots;  ``directions`` how predictions vary with a column
``optional_parts``  parts of a run whose failure is a warning
``run_report``      the report of a run;  ``held_out_table`` its predictions
``imports``         imports of libraries, timed outside of the stages
``plan``            prediction of the stages and memory of a run
``data_check``      check of a configuration against a sample of its data
``scoring``         batch scoring
``untrusted``       models from untrusted sources, in a child process with limits
``rundir``          the run directory, and run.json, which lists its files
``atomic``          files and directories that appear complete or not at all
``run_inputs``      files that no output may overwrite
``checkpoints``     run checkpoints, used by --resume
``limits``          limits on memory, time, energy and cost;  ``safe_points`` at which a run may stop
``timeline``        the stages of a run;  ``display``, ``log`` and ``trackers`` are its listeners
``api``             `Pipeline`, the Python interface, and its ``arguments``;  ``result`` the `Run` that it returns
"""
