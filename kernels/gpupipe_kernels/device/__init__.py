"""Device side of the kernels: arrays, arguments, compilation, and the machine code that the package ships."""
