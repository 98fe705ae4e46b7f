"""Components of texts: TF-IDF weights of hashed n-grams, reduced by a truncated singular value decomposition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.random_streams import derive_seed
from gpupipe.typing import Array, HostArray
from gpupipe_kernels.text import (
    GramProjection,
    Grams,
    GramValue,
    count_grams,
    hash_texts,
    project_texts,
    sublinear,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from gpupipe.backends.base import Backend

SAMPLE_BYTES = 1 << 21  # of distinct texts; their decomposition takes about 4 seconds of one core
N_ITERATIONS = 5  # of the randomized decomposition; the default of scikit-learn's TruncatedSVD
MAX_DEVICE_CELLS = 1 << 28  # counts of one block of texts on a device
CELL_BYTES = 32  # a count with its weight in float64, and temporaries


@dataclass(frozen=True)
class GramSettings:
    """N-grams of one analyzer, hashed into buckets; fields as in `gpupipe_kernels.text.Grams`."""

    analyzer: int
    n_min: int
    n_max: int
    n_buckets: int


@dataclass(frozen=True, eq=False)
class GramComponents:
    """Weights and components of the n-grams of one analyzer.

    - `buckets`: int32, ascending: the buckets that occur in the training rows; others are ignored
    - `idf`: float32, shape (len(buckets),)
    - `components`: float16, shape (len(buckets), k)
    """

    grams: GramSettings
    buckets: HostArray
    idf: HostArray
    components: HostArray

    @cached_property
    def projection(self) -> GramProjection:
        """The projection that the kernels take."""
        grams, slots = self.grams, np.full(self.grams.n_buckets, -1, np.int32)
        slots[self.buckets] = np.arange(len(self.buckets), dtype=np.int32)
        arrays = slots, self.idf, self.components.astype(np.float32)
        for array in arrays:
            array.flags.writeable = False
        return GramProjection(grams.analyzer, grams.n_min, grams.n_max, *arrays)

    def project_on_device(self, data: Array, offsets: Array, backend: Backend) -> Array:
        """Return the projections of texts on a device, float64, shape (k, n_texts); `project_texts` is for the host."""
        xp, grams = backend.xp, self.grams
        settings = Grams(grams.analyzer, grams.n_min, grams.n_max, grams.n_buckets, 0, GramValue.COUNT, 0)
        parts = (self.buckets, self.idf, self.components.T.astype(np.float64), sublinear())
        buckets, idf, components, levels = (backend.to_device(np.ascontiguousarray(part)) for part in parts)
        n_texts = len(offsets) - 1
        out = xp.zeros((len(components), n_texts), "float64")
        step = max(1, min(MAX_DEVICE_CELLS, backend.free_bytes() // CELL_BYTES) // grams.n_buckets)
        for start in range(0, n_texts, step):
            own = offsets[start : start + step + 1]
            first, last = int(own[0]), int(own[-1])
            counts = hash_texts(data[first:last], own - first, settings, allocate=xp.empty)[buckets]
            weights = levels[xp.minimum(counts, len(levels) - 1).astype("int32")] * idf[:, None]
            lengths = xp.sqrt((weights * weights).sum(axis=0))
            out[:, start : start + step] = components @ weights / xp.where(lengths > 0, lengths, 1.0)
        return out


@dataclass(frozen=True, eq=False)
class TextComponents:
    """Components of the texts of one column, as `gpupipe.features.ops.text_vectors` learns them.

    A text becomes the sum of its projections on the components of each analyzer, times `scale`.
    """

    parts: tuple[GramComponents, ...]
    scale: float

    def transform(self, data: Array, offsets: Array, backend: Backend) -> Array:
        """Return the components of texts, float32, shape (k, n_texts).

        `data` and `offsets` are as in `gpupipe_kernels.text.hash_texts`, on the device of `backend`.
        """
        if backend.name == "gpu":
            first, *others = (part.project_on_device(data, offsets, backend) for part in self.parts)
            total = sum(others, start=first)
        else:
            engine = backend.choose_engine("text", len(data))
            total = project_texts(data, offsets, self._projections, backend.n_threads, engine)
        found: Array = (total * self.scale + 0.0).astype("float32")  # no negative zeros
        return found

    @property
    def n_columns(self) -> int:
        """Number of columns: components, and predictions of the target."""
        return int(self.parts[0].components.shape[1])

    def append(self, columns: HostArray) -> TextComponents:
        """Return the components with further columns, shape (buckets of all parts, n), which `scale` does not scale."""
        cuts = np.cumsum([len(part.buckets) for part in self.parts])[:-1]
        scaled = np.split((columns / self.scale).astype(np.float16), cuts)
        parts = zip(self.parts, scaled, strict=True)
        return replace(
            self, parts=tuple(replace(part, components=np.hstack([part.components, own])) for part, own in parts)
        )

    @cached_property
    def _projections(self) -> list[GramProjection]:
        return [part.projection for part in self.parts]

    def arrays(self) -> dict[str, HostArray]:
        """Return what is learned, by name, for the model."""
        found: dict[str, HostArray] = {"scale": np.array(self.scale)}
        for i, part in enumerate(self.parts):
            found |= {f"buckets_{i}": part.buckets, f"idf_{i}": part.idf, f"components_{i}": part.components}
        return found

    @staticmethod
    def from_arrays(arrays: Mapping[str, HostArray], grams: Sequence[GramSettings], k: int) -> TextComponents:
        """Return the components from the result of `arrays`; raise ValueError or KeyError if they are malformed.

        There are `k` columns, or more if some predict the target.
        """
        scale, parts = arrays["scale"], list[GramComponents]()
        _require(scale.shape == () and scale.dtype == np.float64 and bool(np.isfinite(scale)), "scale")
        for i, own in enumerate(grams):
            buckets, idf, components = (arrays[f"{name}_{i}"] for name in ("buckets", "idf", "components"))
            _require(buckets.dtype == np.int32 and buckets.ndim == 1, f"buckets_{i}")
            _require(bool((np.diff(buckets, prepend=-1, append=own.n_buckets) > 0).all()), f"buckets_{i}")
            _require(idf.dtype == np.float32 and idf.shape == buckets.shape, f"idf_{i}")
            _require(components.dtype == np.float16 and components.ndim == 2, f"components_{i}")
            _require(len(components) == len(buckets) and components.shape[1] >= k, f"components_{i}")
            _require(not parts or components.shape[1] == parts[0].components.shape[1], f"components_{i}")
            _require(bool(np.isfinite(idf).all() and np.isfinite(components).all()), f"components_{i}")
            parts.append(GramComponents(own, buckets, idf, components))
        return TextComponents(tuple(parts), float(scale))


def _require(condition: bool, name: str) -> None:
    if not condition:
        raise ValueError(f"the array {name} of text_vectors is invalid")


def fit_components(
    data: HostArray,
    offsets: HostArray,
    weights: HostArray,
    null_weight: float,
    grams: Sequence[GramSettings],
    k: int,
    seed: int,
) -> tuple[TextComponents, csr_matrix]:
    """Return the components of distinct texts, and their TF-IDF matrix, shape (n_texts, buckets of all analyzers).

    The weights of n-grams are those of scikit-learn's TfidfVectorizer with ``sublinear_tf`` and smoothed document
    frequencies. The components are those of its TruncatedSVD: the randomized algorithm of Halko, Martinsson and Tropp
    (2011), "Finding structure with randomness", SIAM Review 53.

    - `data`, `offsets`: the texts; results depend on their order by rounding only
    - `weights`: number of training rows with each text, or their weight, more than 0; `null_weight`: of those without
    - `k`: number of components; those that the texts do not have are 0
    """
    from scipy.sparse import diags_array, hstack
    from sklearn.utils.extmath import randomized_svd

    n_rows = float(weights.sum()) + null_weight
    matrices, known = [], []
    for own in grams:
        matrix, buckets, idf = _weigh(data, offsets, weights, n_rows, own)
        matrices.append(matrix)
        known.append((own, buckets, idf))
    joined = hstack(matrices, format="csr")
    used = np.flatnonzero(np.diff(joined.indptr))
    factors = np.sqrt(weights[used])
    scaled = (diags_array(factors) @ joined[used]).tocsr()
    most = min(k, *scaled.shape)
    components = np.zeros((scaled.shape[1], k), np.float16)
    if most:
        single = scaled.astype(np.float32)  # faster; components are stored with fewer digits
        own_seed = derive_seed(seed, "components of texts")
        components[:, :most] = randomized_svd(single, most, n_iter=N_ITERATIONS, random_state=own_seed)[2].T
    values = scaled @ components.astype(np.float64)
    rows = n_rows or 1.0
    variance = np.square(values).sum() / rows - np.square(factors @ values / rows).sum()  # of all columns
    cuts = np.cumsum([matrix.shape[1] for matrix in matrices])[:-1]
    parts = zip(known, np.split(components, cuts), strict=True)
    found = TextComponents(
        tuple(GramComponents(*own, np.ascontiguousarray(part)) for own, part in parts),
        float(variance) ** -0.5 if variance > 0 else 1.0,
    )
    return found, joined


def _weigh(
    data: HostArray, offsets: HostArray, weights: HostArray, n_rows: float, grams: GramSettings
) -> tuple[csr_matrix, HostArray, HostArray]:
    """Return the TF-IDF matrix of texts, with rows of length 1, its buckets, and their inverse document frequencies."""
    from scipy.sparse import csr_matrix

    found = count_grams(data, offsets, grams.analyzer, grams.n_min, grams.n_max, grams.n_buckets)
    frequency = np.bincount(found.buckets, weights[found.texts], grams.n_buckets)
    buckets = np.flatnonzero(frequency).astype(np.int32)
    idf = (np.log((1.0 + n_rows) / (1.0 + frequency[buckets])) + 1.0).astype(np.float32)
    slots = np.searchsorted(buckets, found.buckets)
    levels = sublinear()
    values = levels[np.minimum(found.counts, len(levels) - 1)] * idf[slots]
    lengths = np.sqrt(np.bincount(found.texts, values * values, len(weights)))
    cells = values / lengths[found.texts], (found.texts, slots)
    return csr_matrix(cells, shape=(len(weights), len(buckets))), buckets, idf
