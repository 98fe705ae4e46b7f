"""Training statistics: numbers, categories and quantiles, on the host and on a device."""
