"""Character and word counts of texts, and pattern flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.distinct_text_op import TextOp, run_kernel
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend

CountName = Literal["characters", "bytes", "words", "lines", "letters", "uppercase", "digits", "punctuation", "spaces"]


@OPS.register("text_counts")
class TextCounts(TextOp):
    """Count characters, words, digits and others in texts, and flag regular expressions: 1 if `patterns` match, else 0.

    A word is a run of letters, digits and ``_``; punctuation includes symbols; spaces are white space of any kind.
    Letters and digits are those of Unicode, in any script. All columns are null where the text is null.

    Output: ``note_characters``, ``note_words``, ..., and ``note_has_url`` for the pattern ``has_url``; float32. Takes
    text and categorical columns.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"note": ["late again", "see https://x.org", None]})
        >>> settings = {"columns": "note", "counts": ["characters", "words"], "patterns": {"has_url": "https?://"}}
        >>> ops = [{"text_counts": settings}]
        >>> program = FeatureProgram(ops, view="codes", schema={"note": "text"}).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           note_characters  note_words  note_has_url
        0             10.0         2.0           0.0
        1             17.0         4.0           1.0
        2              NaN         NaN           NaN
    """

    OP: ClassVar[str] = "text_counts"
    NULL: ClassVar[float] = float("nan")

    counts: list[CountName] = Field(
        ["characters", "words", "digits", "uppercase", "punctuation"], description="Counts to add, one column for each."
    )
    patterns: dict[str, str] = Field(
        {},
        description="Names and regular expressions (RE2): {has_url: 'https?://'} adds the column note_has_url.",
    )

    @field_validator("patterns")
    @classmethod
    def _compile(cls, value: dict[str, str]) -> dict[str, str]:
        import pyarrow as pa

        for name, pattern in value.items():
            if name in get_args(CountName):
                raise ValueError(f"{name} is the name of a count; rename the pattern")
            _found(pattern, pa.array([""]))  # raises ValueError for an invalid pattern
        return value

    @model_validator(mode="after")
    def _check_not_empty(self) -> TextCounts:
        if not self.counts and not self.patterns:
            raise ValueError("expected at least one count or pattern")
        return self

    def column_names(self) -> list[str]:
        """Return the names of the counts and of the patterns."""
        return [*self.counts, *self.patterns]

    @property
    def n_unscaled(self) -> int:
        """The counts; a flag is 0 or 1, as an indicator of `one_hot`."""
        return len(self.counts)

    def values(self, texts: pa.Array, name: str, backend: Backend) -> Array:
        """Return counts and flags of distinct texts, shape (len(counts) + len(patterns), len(texts))."""
        from gpupipe_kernels.text import TextCount, count_texts

        values = backend.xp.empty((len(self.column_names()), len(texts)), "float32")
        if self.counts:
            found = run_kernel(count_texts, texts, backend)
            for i, count in enumerate(self.counts):
                values[i] = found[TextCount[count.upper()]]
        for i, pattern in enumerate(self.patterns.values(), start=len(self.counts)):
            values[i] = backend.to_device(_found(pattern, texts))
        return values


def _found(pattern: str, texts: pa.Array) -> Array:
    """Return whether each text matches the pattern."""
    import pyarrow.compute as pc

    matches: Array = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return matches
