"""Feature ops, and the program that they become.

An op file holds one op (`OPS` has them all by name). `fitted` runs the ops over the training rows and yields
`FittedFeatures`: a schema, a program of numbers, and the names of what it writes. Importing this package imports no
array library.
"""

from gpupipe.features import (  # noqa: I001  (the order of `gpupipe schema`)
    auto,
    impute,
    scaling,
    log1p,
    clip,
    bucketize,
    encode,
    one_hot,
    categorify,
    frequency_encode,
    target_encode,
    hash_bucket,
    cross,
    datetime_parts,
    cyclic,
)
from gpupipe.features.base import OPS, Op

__all__ = ["OPS", "Op"]
_ = (auto, impute, scaling, log1p, clip, bucketize, encode, one_hot, categorify, frequency_encode)
_ = (target_encode, hash_bucket, cross, datetime_parts, cyclic)  # type: ignore[assignment]
