"""Feature ops, one per file, and their base classes."""
