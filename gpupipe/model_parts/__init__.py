"""Parts of a model: what training writes, and predictions read."""
