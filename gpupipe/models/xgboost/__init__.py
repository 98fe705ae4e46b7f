"""XGBoost: its settings, the scale of several targets, native parameters and progress of rounds."""
