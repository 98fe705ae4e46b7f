"""Binning of numbers."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from gpupipe.backends.threads import limit_threads
from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import NAN, ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("bucketize")
class Bucketize(InPlaceOp[NumericExpr]):
    """Cut numbers into bins, by given edges, into equal widths, into equal shares of the training rows, or by k-means.

    A bin includes its left edge and excludes its right one; the first and the last bin are open. Numbers are compared
    with the edges in float64. Nulls belong to no bin and stay null. Row weights (``source.weight``) count in equal
    shares and in k-means; equal widths do not depend on them.

    Edges by k-means are half-way between the centers of a clustering of the numbers (Lloyd 1982) that begins with the
    centers of equal widths, as for scikit-learn's KBinsDiscretizer. More than 131,072 rows are sampled.

    Output: the column becomes categorical, with levels such as ``[18, 65)``, for a later one_hot, target_encode or
    cross. If no later op encodes it, its column in the matrix is the number of the bin from 0, float32. Replaces each
    selected column, or adds one with ``as``. Equal quantiles share one edge, and none is at the minimum, so there may
    be fewer bins than requested; the first bin includes the minimum.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"age": [12.0, 35.0, 65.0, None]})
        >>> ops = [{"bucketize": {"columns": "age", "edges": [18, 65]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           age
        0  0.0
        1  1.0
        2  2.0
        3  NaN
    """

    edges: list[float] | None = Field(None, description="Inner edges of the bins, ascending.")
    bins: int | None = Field(None, ge=2, le=1024, description="Number of bins, if no edges are given.")
    strategy: Literal["uniform", "quantile", "kmeans"] = Field(
        "quantile",
        description="Bins of equal width (uniform), with equal shares of the training rows (quantile), or around the "
        "centers of a clustering (kmeans).",
    )

    @model_validator(mode="after")
    def _edges_or_bins(self) -> Bucketize:
        if (self.edges is None) == (self.bins is None):
            raise ValueError("set either edges or bins")
        if self.edges is not None and (not self.edges or sorted(set(self.edges)) != self.edges):
            raise ValueError("edges must be strictly ascending")
        return self

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        columns = builder.select_numbers(self.columns, "bucketize")
        for column in columns:
            if column.producer.op != "LOAD" or any(step.op != "FILL" for step in column.transforms):
                by = builder.changed.get(column.name, "an earlier op")
                raise ConfigError(
                    f"bucketize takes input columns, unchanged or imputed; {column.name!r} has been changed by {by}",
                    fix=f"move bucketize before that op, or keep the number by giving that op as: {column.name}_scaled",
                    names=[column.name],
                )
        return list(columns)

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        if self.edges is not None:
            return [{"edges": self.edges} for _ in columns]
        assert self.bins is not None  # the validator requires edges or bins
        shares = [i / self.bins for i in range(self.bins)]
        if self.strategy == "quantile":
            found = statistics.quantiles(columns, shares)
        else:
            extremes = statistics.extremes(columns)
            found = [[low + share * (high - low) for share in shares] for low, high in extremes]
        if self.strategy == "kmeans":
            samples = statistics.samples(columns)
            found = [_midpoints(*own, starts) for own, starts in zip(samples, found, strict=True)]
        # An edge at the minimum, as of a column with many equal smallest values, would make the first bin empty.
        return [{"edges": sorted(set(edges))[1:]} for edges in found]

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        edges = state["edges"]
        bounds = ["-inf", *format_edges(edges), "inf"]
        labels = tuple(f"[{low}, {high})" for low, high in pairwise(bounds))
        step = IndexTerm("INDEX_BIN", column.producer.source, stride=3, edges=tuple(edges))
        codes = CategoryExpr(column.name, column.inputs, (step,), 3 + len(labels), labels, root=column.root)
        if column.transforms:
            codes = codes.with_null_as(3 + bisect_right(edges, column.transforms[0].params[0]))
        builder.change(codes)
        ordinal = [NAN, NAN, NAN, *map(float, range(len(labels)))]
        builder.put_default(codes, ordinal, "bucketize")


def _midpoints(values: HostArray, weights: HostArray | None, starts: list[float]) -> list[float]:
    """Return the minimum, and the midpoints of neighboring centers of the clusters of `values`, which may be empty.

    `starts` are the lower edges of bins of equal width, from which the clusters begin.
    """
    import numpy as np

    if not len(values) or len(set(starts)) < 2:
        return starts[:1]
    if len(values) < len(starts):  # each value is a cluster, which KMeans refuses
        distinct = np.unique(values.astype(np.float64))
        return [starts[0], *((distinct[1:] + distinct[:-1]) / 2).tolist()]
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    first = np.array(starts)[:, None] + (starts[1] - starts[0]) / 2
    with limit_threads(1, 1), warnings.catch_warnings():  # several threads add in any order
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer distinct values than clusters
        found = KMeans(len(first), init=first, n_init=1).fit(values.astype(np.float64)[:, None], sample_weight=weights)
    centers = np.sort(found.cluster_centers_[:, 0])
    return [starts[0], *((centers[1:] + centers[:-1]) / 2).tolist()]


def format_edges(edges: list[float]) -> list[str]:
    """Return the edges as text, with at least six digits and as many as needed to differ."""
    for digits in range(6, 17):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            return texts
    return [f"{edge:.17g}" for edge in edges]
