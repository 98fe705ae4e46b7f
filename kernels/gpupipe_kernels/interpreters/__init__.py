"""The interpreters of a feature program: NumPy, compiled for the host, compiled for the device."""
