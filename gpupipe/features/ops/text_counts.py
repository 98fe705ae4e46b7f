"""Counts of what is in texts, and flags of patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.text_op import TextOp, run_kernel
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend

CountName = Literal[
    "characters", "bytes", "words", "lines", "letters", "uppercase", "digits", "punctuation", "spaces"
]  # fmt: skip


@OPS.register("text_counts")
class TextCounts(TextOp):
    r"""Count what is in a text: ``note_characters``, ``note_words``, …; and flag `patterns`: 1 if one is found, else 0.

    A word is a run of letters, digits and ``_``; punctuation includes symbols; spaces are white space of any kind. All
    alphabets count. A null has no counts and no flags: it stays null.
    """

    OP: ClassVar[str] = "text_counts"
    NULL: ClassVar[float] = float("nan")

    counts: list[CountName] = ["characters", "words", "digits", "uppercase", "punctuation"]  # noqa: RUF012
    patterns: dict[str, str] = Field(
        {},
        description="Name to regular expression (RE2): {has_url: 'https?://'} makes note_has_url.",
    )

    @field_validator("patterns")
    @classmethod
    def _compile(cls, value: dict[str, str]) -> dict[str, str]:
        import pyarrow as pa

        for name, pattern in value.items():
            if name in get_args(CountName):
                raise ValueError(f"{name} is the name of a count: call the pattern otherwise")
            _found(pattern, pa.array([""]))  # pyarrow's error is a ValueError that says what is wrong with it
        return value

    @model_validator(mode="after")
    def _makes_something(self) -> TextCounts:
        if not self.counts and not self.patterns:
            raise ValueError("name some counts or patterns")
        return self

    def column_names(self) -> list[str]:
        """Return the names of the counts and of the patterns."""
        return [*self.counts, *self.patterns]

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
    """Return whether each text holds the pattern."""
    import pyarrow.compute as pc

    matches: Array = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return matches
