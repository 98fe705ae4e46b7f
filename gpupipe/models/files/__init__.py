"""Files of fitted models, checked before a library loads them."""
