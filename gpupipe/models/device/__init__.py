"""Training on a device, and the fitted models of its libraries."""
