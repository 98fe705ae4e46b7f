"""Runs and the records that they leave; the entry point is `gpupipe.pipeline.run.run_pipeline`.

Training, the exported model, the plan of a run and its trackers are separate packages, which this one puts together.
"""
