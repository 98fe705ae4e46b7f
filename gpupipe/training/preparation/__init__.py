"""What a run prepares before its first training."""
