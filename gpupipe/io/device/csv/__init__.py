"""CSV on a device: chunks of whole rows, and their fields by the rules of the host."""
