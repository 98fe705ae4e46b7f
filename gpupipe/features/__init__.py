"""Feature ops, and their compilation to a program.

Each file of `ops` contains one op, registered by name in `OPS`. `program.fitted` fits ops to the training rows and
returns `FittedFeatures`: a schema, a program, and the names of its output columns. Importing this package imports no
array library.
"""

# Importing a file registers its op, in the order that `gpupipe schema` lists.
from gpupipe.features.ops import auto, impute, standardize, min_max, robust_scale, log1p, yeo_johnson, clip, bucketize  # noqa: F401, I001
from gpupipe.features.ops import encode, one_hot, categorify, frequency_encode, target_encode  # noqa: F401
from gpupipe.features.ops import hash_bucket, cross, datetime_parts, cyclic, haversine, bearing, arithmetic  # noqa: F401
from gpupipe.features.ops import polynomial, expression  # noqa: F401
from gpupipe.features.ops import aggregate, lag, difference, rolling, decay, sessions, time_since, rfm, drop, kernel  # noqa: F401
from gpupipe.features.ops import text_hash, text_counts  # noqa: F401
from gpupipe.features.ops.base import OPS, FeatureOp, Op

__all__ = ["OPS", "FeatureOp", "Op"]
