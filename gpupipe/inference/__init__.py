"""The portable model: its files, loading, and inference."""
