"""Neural models: networks of PyTorch, trained on the tensors of the features.

PyTorch is imported when one is trained.
"""

from gpupipe.models.neural import settings  # noqa: F401  # registers them
