"""Reader of JSON lines on a device, with the typing rules of the host."""
