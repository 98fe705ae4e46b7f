"""Context of one model fit, besides the model settings and the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpupipe.models.resources import ONE_PROCESS, Resources
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


@dataclass(frozen=True)
class FitContext:
    """Context of one model fit, besides the model settings and the matrix.

    Attributes
    ----------
    backend : Backend
    task : Task
    seed : int
    n_classes : int
        Classification only: y holds codes below it.
    categorical : mapping of int to int
        Column of the matrix to its number of codes; empty in the dense view.
    feature_names : sequence of str
        One name for each column of the matrix.
    class_labels : sequence of str
        Classification only: the label of each code, for ``class_weight``; empty if labels are codes.
    resources : Resources
        Of trainings that take long.
    """

    backend: Backend
    task: Task
    seed: int
    n_classes: int = 0
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] = ()
    class_labels: Sequence[str] = ()
    resources: Resources = ONE_PROCESS
