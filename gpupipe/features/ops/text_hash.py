"""Feature hashing of text n-grams."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.distinct_text_op import TextOp, ascending_ngrams, lower_texts, run_kernel
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe_kernels.text import Grams


@OPS.register("text_hash")
class TextHash(TextOp):
    r"""Hash the n-grams of texts to `buckets` columns, without a vocabulary, as scikit-learn's HashingVectorizer.

    Equal to HashingVectorizer with the token pattern ``\w+`` (MurmurHash3, 32 bits, seed 0). Nothing is learned, so
    words that are not in the training rows count as well. A null or empty text is 0 in all columns. Models of scaled
    numbers, such as logistic regression, take the columns as they are, like those of scikit-learn: standardized, a word
    of one text would outweigh all others.

    Output: ``note_hash_0``, ``note_hash_1``, ...; float32, never null. Takes text and categorical columns.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"note": ["late again", "paid", None]})
        >>> ops = [{"text_hash": {"columns": "note", "buckets": 4}}]
        >>> program = FeatureProgram(ops, view="codes", schema={"note": "text"}).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           note_hash_0  note_hash_1  note_hash_2  note_hash_3
        0     0.707107    -0.707107          0.0          0.0
        1    -1.000000     0.000000          0.0          0.0
        2     0.000000     0.000000          0.0          0.0
    """

    OP: ClassVar[str] = "text_hash"
    NULL: ClassVar[float] = 0.0

    buckets: int = Field(64, ge=2, le=2**14, description="Number of columns for each text column.")
    analyzer: Literal["word", "char", "char_wb"] = Field(
        "word", description="Units of the n-grams: words, characters, or characters within words padded by spaces."
    )
    ngrams: tuple[int, int] = Field(
        (1, 1), description="Minimum and maximum length of the n-grams, in words or characters."
    )
    lowercase: bool = Field(True, description="Convert texts to lower case first.")
    alternate_sign: bool = Field(
        True, description="Count about half of the n-grams as -1, so that collisions cancel out."
    )
    value: Literal["count", "binary", "log"] = Field(
        "count",
        description="Value of a column: the count, 1 if it is not 0 (binary), or sign(count) * log(1 + |count|) (log).",
    )
    norm: Literal["l2", "none"] = Field(
        "l2", description="Scale the columns of each text to Euclidean length 1 (l2), or not (none)."
    )

    @field_validator("ngrams")
    @classmethod
    def _ascend(cls, value: tuple[int, int]) -> tuple[int, int]:
        return ascending_ngrams(value)

    def column_names(self) -> list[str]:
        """Return ``hash_0``, ``hash_1``, …"""
        return [f"hash_{i}" for i in range(self.buckets)]

    @property
    def n_unscaled(self) -> int:
        """None: the texts are the rows of a sparse matrix, whose columns of rare words would become huge."""
        return 0

    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return the vectors of distinct texts, shape (buckets, len(texts))."""
        from gpupipe_kernels.text import hash_texts

        lowered = lower_texts(texts, name) if self.lowercase else texts
        return run_kernel(partial(hash_texts, grams=self._grams()), lowered, backend)

    def _grams(self) -> Grams:
        from gpupipe_kernels.text import Analyzer, Grams, GramValue

        return Grams(
            Analyzer[self.analyzer.upper()],
            *self.ngrams,
            self.buckets,
            int(self.alternate_sign),
            GramValue[self.value.upper()],
            int(self.norm == "l2"),
        )
