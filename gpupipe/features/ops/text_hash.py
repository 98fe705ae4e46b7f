"""Hashed n-grams of texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from gpupipe.errors import SchemaError
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.text_op import TextOp, run_kernel
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe_kernels.text import Grams

MOST_ITEMS = 16


@OPS.register("text_hash")
class TextHash(TextOp):
    r"""Hash the n-grams of a text to `buckets` numbers: ``note_hash_0``, ``note_hash_1``, …

    The same numbers as scikit-learn's HashingVectorizer with the token pattern ``\w+``: no vocabulary, so nothing is
    learned, and words that were never seen count as well. A null is an empty text: all zeros.
    """

    OP: ClassVar[str] = "text_hash"
    NULL: ClassVar[float] = 0.0

    buckets: int = Field(64, ge=2, le=2**14, description="Columns for each text.")
    analyzer: Literal["word", "char", "char_wb"] = Field(
        "word", description="n-grams of words, of characters, or of the characters of each word with a blank around it."
    )
    ngrams: tuple[int, int] = Field((1, 1), description="Words or characters of the shortest and the longest n-gram.")
    lowercase: bool = True
    alternate_sign: bool = Field(True, description="Half of the n-grams count -1, so that collisions cancel out.")
    value: Literal["count", "binary", "log"] = Field(
        "count", description="Count n-grams; 1 if there is one, without signs; or log(1 + |count|) with its sign."
    )
    norm: Literal["l2", "none"] = Field("l2", description="l2 gives each text the length 1.")

    @field_validator("ngrams")
    @classmethod
    def _ascend(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= value[0] <= value[1] <= MOST_ITEMS:
            raise ValueError(f"expected two numbers from 1 to {MOST_ITEMS} that ascend, got {list(value)}")
        return value

    def column_names(self) -> list[str]:
        """Return ``hash_0``, ``hash_1``, …"""
        return [f"hash_{i}" for i in range(self.buckets)]

    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return the vectors of distinct texts, shape (buckets, len(texts))."""
        from gpupipe_kernels.text import hash_texts

        return run_kernel(partial(hash_texts, grams=self._grams()), self._lowered(texts, name), backend)

    def _lowered(self, texts: pa.Array, name: str) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.lowercase:
            return texts
        try:
            return pc.utf8_lower(texts)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"column {name!r} holds text that is not UTF-8: {error}", fix="re-encode it", names=[name]
            ) from None

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
