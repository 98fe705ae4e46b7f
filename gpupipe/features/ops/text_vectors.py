"""Components of texts: TF-IDF of n-grams, reduced by a truncated singular value decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from gpupipe.features.history.derivation import DerivedColumn, TextCorpus, arrays_of_part, join_arrays
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.distinct_text_op import (
    TextOp,
    ascending_ngrams,
    encode_texts,
    lower_texts,
    run_kernel,
    text_buffers,
)
from gpupipe.random_streams import make_generator
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.statistics.text_components import GramSettings, TextComponents
    from gpupipe.features.statistics.text_target import TargetOfFolds
    from gpupipe.features.statistics.training import TargetCounts

NGRAMS = {"word": (1, 2), "char": (3, 5)}


@OPS.register("text_vectors")
class TextVectors(TextOp):
    """Turn texts into a few numbers each, so that similar texts have similar numbers (latent semantic analysis).

    N-grams of words and characters are counted, and weighted as by scikit-learn's TfidfVectorizer with
    ``sublinear_tf``: those that a text repeats count more, those of many texts less. A truncated singular value
    decomposition reduces them to `n_components` numbers, as skrub's StringEncoder does. N-grams of characters, within
    words padded by blanks, make ``Jon Smith`` similar to ``John Smith``: use the op for names, titles and other
    categories with many levels or typos as well as for free text, for which scikit-learn recommends 100 components.

    - N-grams are hashed to `size` buckets for each analyzer; no vocabulary is stored. Weights and components are
      learned from the training rows, those of a fold in each fold: from all of their distinct texts, or a random sample
      of 2 MiB if these are longer.
    - ``auto`` uses both analyzers. Each has the same weight: its TF-IDF vectors have length 1.
    - Texts are converted to lower case. A null or empty text, or one without known n-grams, is 0 in all columns.
    - One factor scales all columns, so that their variances add up to 1, that of one standardized number, as in skrub.
      Models of scaled numbers take them as they are.
    - More than 4,095 repetitions of an n-gram count as 4,095.
    - With `target`, a ridge regression of the target on all n-grams adds what a decomposition that does not know the
      target loses. The columns of a training row are from the other folds, as those of target_encode, and folds are the
      same. The penalty is selected by leave-one-out errors on at most 1,000 texts (Rifkin and Lippert 2007, "Notes on
      regularized least squares", MIT-CSAIL-TR-2007-025), as by scikit-learn's RidgeCV.

    Output: ``note_vector_0``, ``note_vector_1``, ...; float32, never null, in descending order of information. With
    `target`, also ``note_vector_target``: the predicted deviation from the mean target, in standard deviations of the
    mean target of a text. With more than two classes or several targets there is a column for each output:
    ``note_vector_target_0``, ... Takes text and categorical columns. A model stores 2 bytes for each column of each
    bucket that occurs: up to 4.5 MB per text column by default.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"city": ["Springfield", "Springfeild", "Boston", None]})
        >>> ops = [{"text_vectors": {"columns": "city", "n_components": 2}}]
        >>> program = FeatureProgram(ops, view="codes", schema={"city": "text"}).set_output(transform="pandas")
        >>> program.fit_transform(frame).abs().round(1)
           city_vector_0  city_vector_1
        0            1.3            0.0
        1            1.3            0.0
        2            0.0            1.7
        3            0.0            0.0
    """

    OP: ClassVar[str] = "text_vectors"
    NULL: ClassVar[float] = 0.0

    n_components: int = Field(30, ge=1, le=1000, description="Number of columns for each text column.")
    analyzer: Literal["auto", "word", "char"] = Field(
        "auto", description="Units of the n-grams: words, characters within words padded by blanks, or both (auto)."
    )
    ngrams: tuple[int, int] | None = Field(
        None,
        description="Minimum and maximum length of the n-grams: by default 1 to 2 words, and 3 to 5 characters.",
    )
    target: bool = Field(False, description="Also predict the target from the n-grams, by ridge regression.")
    folds: int = Field(5, ge=2, le=100, description="Number of folds of the training rows, with target.")
    size: int = Field(
        2**15, ge=2**10, le=2**20, description="Number of buckets of each analyzer, a power of 2; fewer are faster."
    )

    _learned: dict[str, TextComponents] = PrivateAttr(default_factory=dict)

    @field_validator("ngrams")
    @classmethod
    def _ascend(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        return None if value is None else ascending_ngrams(value)

    @field_validator("size")
    @classmethod
    def _require_power(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError(f"expected a power of 2; got {value}")
        return value

    @model_validator(mode="after")
    def _check_ngrams(self) -> TextVectors:
        if self.ngrams is not None and self.analyzer == "auto":
            raise ValueError("ngrams counts words or characters: also set analyzer to word or char")
        return self

    def column_names(self) -> list[str]:
        """Return ``vector_0``, ``vector_1``, …, and ``vector_target`` once it is learned."""
        n_targets = next((each.n_columns for each in self._learned.values()), self.n_components) - self.n_components
        return [*(f"vector_{i}" for i in range(self.n_components)), *self.target_names(n_targets)]

    def target_names(self, n_targets: int) -> list[str]:
        """Return ``vector_target``, or ``vector_target_0``, … if there are several."""
        return ["vector_target"] if n_targets == 1 else [f"vector_target_{i}" for i in range(n_targets)]

    @property
    def n_unscaled(self) -> int:
        """None: one factor scales all columns, which keeps the proportions of the components."""
        return 0

    def derive(self, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the components of each text column; before they are learned, the positions of its distinct texts."""
        if self._learned:
            yield from super().derive(sources)
            return
        columns, names = self.selected(sources.main), self.column_names()
        self.require_room(len(columns) * len(names), sources)
        for column in columns:
            raw = sources.main.raw(column)
            texts, codes = sources.once(("texts", column), partial(encode_texts, raw, sources.backend))
            made = tuple(f"{self.prefix}{column}_{name}" for name in names)
            distinct = TextCorpus(column, made, lower_texts(texts, column))
            yield DerivedColumn(f"{self.prefix}{column}_texts", codes, (column,), texts=distinct)

    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return the components of distinct texts, shape (n_components, len(texts))."""
        return run_kernel(
            lambda data, offsets, **_: self._learned[name].transform(data, offsets, backend),
            lower_texts(texts, name),
            backend,
        )

    def learn(
        self, distinct: TextCorpus, weights: Array, seed: int, counts: TargetCounts | None
    ) -> tuple[TextVectors, TargetOfFolds | None]:
        """Return the op with the components of a column, and with `counts` the predictions of the target out of fold.

        `weights` are the number of training rows with each distinct text, or their weight; the last are those of rows
        without a text. `counts` are those of the target for each distinct text.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from gpupipe.features.statistics.text_components import SAMPLE_BYTES, fit_components
        from gpupipe.features.statistics.text_target import add_target

        used = np.flatnonzero(weights[:-1] > 0)
        texts, own = distinct.values.take(pa.array(used)), np.asarray(weights, np.float64)[used]
        order = pc.sort_indices(texts).to_numpy()  # so that no result depends on the order of the rows
        if texts.nbytes > SAMPLE_BYTES:
            order = make_generator(seed, "sampled texts").permutation(order)
            lengths = np.cumsum(pc.binary_length(texts).to_numpy()[order])
            order = order[: max(1, int(np.searchsorted(lengths, SAMPLE_BYTES)))]
        nulls = float(weights[-1]) * (own[order].sum() / own.sum() if len(order) else 1.0)
        data, offsets = text_buffers(texts.take(pa.array(order)))
        found, matrix = fit_components(data, offsets, own[order], nulls, self.grams(), self.n_components, seed)
        of_folds = None
        if counts is not None:
            found, of_folds = add_target(found, matrix, counts, used[order], seed)
        return self._with({**self._learned, distinct.column: found}), of_folds

    def grams(self) -> list[GramSettings]:
        """Return the n-grams of each analyzer."""
        from gpupipe.features.statistics.text_components import GramSettings
        from gpupipe_kernels.text import Analyzer

        kinds = {"word": Analyzer.WORD, "char": Analyzer.CHAR_WB}
        used = kinds if self.analyzer == "auto" else [self.analyzer]
        return [GramSettings(int(kinds[kind]), *(self.ngrams or NGRAMS[kind]), self.size) for kind in used]

    def arrays(self) -> dict[str, HostArray]:
        """Return the components of each column, for the model."""
        return join_arrays(self._learned[column].arrays() for column in self.listed())

    def with_arrays(self, arrays: Mapping[str, HostArray]) -> TextVectors:
        """Return the op with the result of `arrays`; raise ValueError or KeyError if it is malformed."""
        from gpupipe.features.statistics.text_components import TextComponents

        learned = {}
        for i, column in enumerate(self.listed()):
            own = arrays_of_part(arrays, i)
            learned[column] = TextComponents.from_arrays(own, self.grams(), self.n_components)
        return self._with(learned)

    def _with(self, learned: dict[str, TextComponents]) -> TextVectors:
        found = self.model_copy()
        found._learned = learned
        return found
