"""Values that a configuration took from the environment: secrets, perhaps, so what is written has their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpupipe.config.scalars import resolve
from gpupipe.errors import GpupipeError
from gpupipe.readers.files import mask

LEAST_LENGTH = 4  # of a value that is looked for in messages: shorter ones are in every other word


@dataclass(frozen=True)
class Borrowed:
    """The variables whose values must not be shown.

    Attributes
    ----------
    values : mapping of str to str
        Name to value.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def hide(self, text: str) -> str:
        """Return `text` with each value as ``${NAME}`` where it stands by itself; numbers and truths stay.

        Passwords and signatures in URLs are masked, wherever they came from.
        """
        for name, value in sorted(self.values.items(), key=lambda item: -len(item[1])):
            if len(value) >= LEAST_LENGTH and value in text and isinstance(resolve(value), str):
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", f"${{{name}}}", text)
        return mask(text)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the values in the message of an error of ours that leaves the block."""
        try:
            yield
        except GpupipeError as error:
            error.reword(self.hide)
            raise
