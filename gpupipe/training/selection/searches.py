"""Searches of a run: their records, and the entries with the parameters that they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupipe.config import ModelEntry
from gpupipe.report.search_record import SearchRecord
from gpupipe.training.job import Candidate


class Searches:
    """Searches of the candidates, by label; of several rounds, the last one."""

    def __init__(self) -> None:
        self._records: dict[str, SearchRecord] = {}
        self._tuned: dict[str, ModelEntry] = {}

    def add(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Add the searches of a round; return its candidates. A model that is trained again keeps its record."""
        for trained in (candidate.trained for candidate in candidates):
            if trained.search is not None:
                self._records[trained.entry.label] = trained.search
                if trained.search.kind == "tuning":
                    self._tuned[trained.entry.label] = trained.entry
        return [
            replace(each, trained=replace(each.trained, search=self._records.get(each.trained.entry.label)))
            for each in candidates
        ]

    def tuned(self, entries: Sequence[ModelEntry]) -> list[ModelEntry]:
        """Return those of the `entries` that were tuned, with the best parameters."""
        return [self._tuned[entry.label] for entry in entries if entry.label in self._tuned]
