"""Ledger of the memory that is held at a point of a planned run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Ledger:
    """The bytes that are held on the host or on a device, by what they are for.

    Attributes
    ----------
    held : dict of str to int
    limit : int
        What there is in all.
    """

    limit: int
    held: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All that is held."""
        return sum(self.held.values())

    def hold(self, name: str, n_bytes: float) -> None:
        """Hold so many bytes more under a name."""
        self.held[name] = self.held.get(name, 0) + int(n_bytes)

    def release(self, *names: str) -> None:
        """Hold nothing more under these names."""
        for name in names:
            self.held.pop(name, None)

    def largest(self, need: str, n_bytes: int) -> list[tuple[str, int]]:
        """Return the three largest of what is held, and of a passing need."""
        everything = [*self.held.items(), (need, n_bytes)]
        return sorted(everything, key=lambda item: -item[1])[:3]
