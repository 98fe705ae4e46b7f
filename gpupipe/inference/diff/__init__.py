"""Two models compared: what changed in them, and how their predictions for the same rows differ."""
