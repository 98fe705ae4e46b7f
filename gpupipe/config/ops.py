"""Feature ops that are given from Python, without the configuration around them."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from gpupipe.config.document import build_tree
from gpupipe.config.features import OpItem
from gpupipe.config.problems import problems_of
from gpupipe.config.shorthand import expand_op
from gpupipe.errors import ConfigError
from gpupipe.features import FeatureOp
from gpupipe.settings import Settings


class OpList(Settings):
    """A list of ops in any of their forms."""

    ops: tuple[OpItem, ...]


def parse_ops(ops: Any) -> tuple[FeatureOp, ...]:
    """Return the ops that a list describes, as in the section ``features``.

    Raises
    ------
    ConfigError
        With one line in ``problems`` for each mistake, such as ``ops[0].impute.strategy: expected …``.

    Examples
    --------
    >>> parse_ops([{"impute": "age"}])[0].columns
    'age'
    """
    root = build_tree({"ops": ops}, "")
    assert isinstance(root.value, dict)
    if isinstance(root.value["ops"].value, list):
        for item in root.value["ops"].value:
            expand_op(item)
    try:
        return OpList.model_validate(root.plain()).ops
    except ValidationError as error:
        problems = [str(problem) for problem in problems_of(error, root, OpList)]
    count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    raise ConfigError(f"{count} in the feature ops:", problems=problems)
