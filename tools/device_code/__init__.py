"""Build of the machine code that the package ships, from the device loops in Python."""
