"""Plan of a run: its stages with devices and memory, before it runs."""
