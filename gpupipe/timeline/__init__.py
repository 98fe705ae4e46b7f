"""Timeline of a run, and what listens to it."""
