"""Device side of the kernels: arrays, arguments, compilation, and the machine code that the package ships.

``language``    Numba's CUDA language for loop files, imported only when a loop is compiled or simulated
``parameters``  argument types of a device loop, its entries, and how arguments are passed
``arrays``      arrays in device memory
``compiler``    compilation of entries to PTX by numba-cuda
``binaries``    machine code in ``compiled/`` and its manifest
``functions``   loaded functions, ready to launch
"""
