"""Search for the parameters of a model (``tune:``) on held-out training rows."""
