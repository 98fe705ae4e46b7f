"""JSON lines on a device: the structure of the lines, and their values by the rules of the host."""
