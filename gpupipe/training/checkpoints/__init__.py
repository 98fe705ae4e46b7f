"""Run checkpoints, used by --resume."""
