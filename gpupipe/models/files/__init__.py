"""Files of fitted models; untrusted content is checked before a library loads it."""
