"""Training statistics of numbers and categories, on the CPU and the GPU."""
