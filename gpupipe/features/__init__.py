"""Feature ops, and the program that they become.

An op file holds one op (`OPS` has them all by name). `fitted` runs the ops over the training rows and yields
`FittedFeatures`: a schema, a program of numbers, and the names of what it writes. Importing this package imports no
array library.
"""

# One line for each op file: importing it registers its ops. The order is that of `gpupipe schema`.
from gpupipe.features.ops import auto, impute, standardize, min_max, robust_scale, log1p, yeo_johnson, clip, bucketize  # noqa: F401, I001
from gpupipe.features.ops import encode, one_hot, categorify, frequency_encode, target_encode  # noqa: F401
from gpupipe.features.ops import hash_bucket, cross, datetime_parts, cyclic, haversine, bearing, arithmetic  # noqa: F401
from gpupipe.features.ops import polynomial, expression  # noqa: F401
from gpupipe.features.ops import aggregate, lag, difference, rolling, decay, sessions, time_since, rfm, drop, kernel  # noqa: F401
from gpupipe.features.ops import text_hash, text_counts  # noqa: F401
from gpupipe.features.ops.base import OPS, FeatureOp, Op

__all__ = ["OPS", "FeatureOp", "Op"]
