"""Feature ops, one file per op or pair of ops, and their base classes."""
