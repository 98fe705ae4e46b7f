"""History features: derived columns over the events of an entity key."""
