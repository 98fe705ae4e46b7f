"""Base classes of plug-ins: feature ops, models and metrics of other packages.

A package declares its plug-ins as entry points of the groups ``gpupipe.ops``, ``gpupipe.models``, ``gpupipe.readers``
and ``gpupipe.metrics``. The name of an entry point is the name in the configuration. A reader is a function: it takes
an open binary file and returns a `pyarrow.Table`; its name is also the suffix of its files.
"""

from gpupipe.features.ops.plugin import PluginOp
from gpupipe.metrics.plugin import PluginMetric
from gpupipe.models.plugin import PluginModel

__all__ = ["PluginMetric", "PluginModel", "PluginOp"]
