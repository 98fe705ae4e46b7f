"""LightGBM's text model: parsed and checked here, and never read by LightGBM.

The format is written by ``Booster.save_model``: a header, one block of ``name=values`` lines per tree, and, after
``end of trees``, the importances and parameters, which no prediction needs. Checked against LightGBM 4.7.
Source: ``src/io/tree.cpp`` (``Tree::ToString``) and ``include/LightGBM/tree.h`` (decisions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.models.files.description import Description
from gpupipe.models.files.tree_checks import check_nodes
from gpupipe.tasks import CLASSIFICATION
from gpupipe_kernels.rows.links import Link
from gpupipe_kernels.rows.trees import (
    LEAF,
    LEFT,
    MAX_CATEGORY,
    RIGHT,
    WORD,
    CategoryWords,
    PackedTrees,
    TreeArrays,
    at_most,
    pack_trees,
)

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

Trees = Sequence[Mapping[str, str]]  # the fields of each tree
END = "end of trees"
VERSION = "v4"
RANKED = ("lambdarank", "rank_xendcg")
LINKS = {
    "binary": Link.SIGMOID,
    "gamma": Link.EXP,
    "multiclass": Link.SOFTMAX,
    "poisson": Link.EXP,
    "tweedie": Link.EXP,
    **dict.fromkeys(("fair", "huber", "mape", "quantile", "regression", "regression_l1", *RANKED), Link.IDENTITY),
}
# Bits of a decision type: categorical, default left, and what a missing value is (0 zero, 1 also zeros, 2 NaN).
CATEGORICAL = 1
DEFAULT_LEFT = 2
MISSING_SHIFT = 2
MISSING_NAN = 2
ZERO = float(np.float32(1e-35))  # LightGBM predicts numbers up to this magnitude as 0
BELOW_ZERO = np.nextafter(np.float32(-ZERO), np.float32(-np.inf))


@dataclass(frozen=True)
class LightGBMTrees:
    """The trees of a model, and its output."""

    packed: PackedTrees  # with one float64 value per leaf
    n_outputs: int
    link: Link  # transform of the sums of leaves
    # float64, shape (n_columns,): total gain of the splits on each column, in the 6 digits of the file.
    gains: HostArray


def read_trees(data: bytes, expected: Description, *, with_cover: bool = False) -> LightGBMTrees:
    """Return the trees in the content of a text model.

    `data` is the text that ``Booster.model_to_string`` returned. With `with_cover`, the number of training rows in each
    node, which no prediction needs, is read as well. Raise ValueError if a field is missing or has an impossible value,
    or the columns or outputs do not match `expected`.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not a text model of LightGBM: it is not UTF-8") from None
    body, end, _ = text.partition(f"\n{END}\n")
    head, *blocks = body.split("\nTree=")
    if not end or not head.startswith("tree\n"):
        raise ValueError("it is not a complete text model of LightGBM")
    header = _fields(head.removeprefix("tree\n"))
    if header.get("version") != VERSION:
        raise ValueError(f"expected a text model of version {VERSION}; got {header.get('version')!r:.40}")
    if "average_output" in header:
        raise ValueError("it is a random forest of LightGBM, which is not supported")
    n_columns = _integer(header, "max_feature_idx", 0) + 1
    n_outputs = _integer(header, "num_tree_per_iteration", 1)
    expected.check_columns(n_columns)
    if len(header.get("feature_names", "").split()) != n_columns:  # where `expected` has no names, this bounds arrays
        raise ValueError(f"it does not name its {n_columns:,} columns")
    expected.check_outputs(n_outputs)
    link = _link(header, expected, n_outputs)
    if len(blocks) % n_outputs:
        raise ValueError(f"it has {len(blocks):,} trees for {n_outputs:,} outputs")
    packed, gains = _pack(blocks, n_columns, n_outputs, with_cover)
    return LightGBMTrees(packed, n_outputs, link, gains)


def _link(header: Mapping[str, str], expected: Description, n_outputs: int) -> Link:
    """Return the transform of the objective, which must have probabilities for classification only."""
    name, *settings = header.get("objective", "").split() or [""]
    if expected.task in CLASSIFICATION:
        matches = name == ("binary" if n_outputs == 1 else "multiclass")
    else:
        matches = name in LINKS.keys() - {"binary", "multiclass"} and (name in RANKED) == (expected.task == "ranking")
    if not matches:
        raise ValueError(f"the objective {name!r:.40} does not match the task {expected.task}")
    allowed = {"binary": ["sigmoid:1"], "multiclass": [f"num_class:{n_outputs}"]}
    if settings != allowed.get(name, []):
        raise ValueError(f"the objective {name} has unsupported settings {' '.join(settings)!r:.40}")
    return LINKS[name]


def _pack(blocks: list[str], n_columns: int, n_outputs: int, with_cover: bool) -> tuple[PackedTrees, HostArray]:
    """Return the trees of all blocks, and the gain of each column.

    The nodes of a tree are its splits, the root first, then its leaves. A model has thousands of trees of few nodes, so
    the arrays of all trees are read and checked at once.
    """
    if not blocks:
        raise ValueError("it has no trees")
    trees = [_block(position, block) for position, block in enumerate(blocks)]
    n_leaves = np.array([_count(trees, position, "num_leaves", 1) for position in range(len(trees))])
    n_splits = n_leaves - 1
    for position in range(len(trees)):
        if _count(trees, position, "is_linear", 0) != 0:
            raise ValueError(f"tree {position}: it has linear models in its leaves, which are not supported")
    value = _numbers(trees, "leaf_value", n_leaves)
    column, kind, left, right = (
        _integers(trees, name, n_splits) for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    threshold, gain = (_numbers(trees, name, n_splits) for name in ("threshold", "split_gain"))

    roots, first = (np.concatenate([[0], np.cumsum(sizes)[:-1]]) for sizes in (n_splits + n_leaves, n_splits))
    of_split, of_leaf = (np.repeat(np.arange(len(trees)), sizes) for sizes in (n_splits, n_leaves))
    split = np.arange(len(of_split)) + (roots - first)[of_split]
    leaf = np.arange(len(of_leaf)) + (roots + n_splits - np.cumsum(n_leaves) + n_leaves)[of_leaf]
    n_nodes = len(split) + len(leaf)
    is_leaf = np.zeros(n_nodes, bool)
    is_leaf[leaf] = True

    def nodes(values: HostArray, at: HostArray = split, empty: float = 0) -> HostArray:
        found = np.full((n_nodes, *values.shape[1:]), empty, values.dtype)
        found[at] = values
        return found

    sides = []
    for side in (left, right):
        child = np.where(side < 0, n_splits[of_split] + ~side, side)  # else the complement of its leaf
        outside = (child < 1) | (child >= (n_splits + n_leaves)[of_split])
        if outside.any():
            raise ValueError(f"tree {of_split[outside][0]}: a node has a child that does not exist")
        sides.append(nodes(child + roots[of_split], empty=LEAF))
    columns = nodes(column)
    check_nodes(sides[0], sides[1], columns, is_leaf, n_columns)
    missing_kind = kind >> MISSING_SHIFT
    if ((kind < 0) | (kind > 11)).any() or np.isin(missing_kind, (0, MISSING_NAN), invert=True).any():
        raise ValueError("a tree has decision types that gpupipe does not train")
    gains = np.bincount(column, gain, n_columns)
    is_category = (kind & CATEGORICAL) != 0
    words = CategoryWords(is_exact=False)
    positions = np.zeros(len(split), np.int64)
    n_sets = np.bincount(of_split[is_category], minlength=len(trees))
    for position in range(len(trees)):
        if n_sets[position] or trees[position].get("num_cat") != "0":
            own = slice(first[position], first[position] + n_splits[position])
            positions[own] = _add_categories(trees, position, np.flatnonzero(is_category[own]), threshold[own], words)
    nan_side = np.where(missing_kind == MISSING_NAN, (kind & DEFAULT_LEFT) != 0, threshold >= 0)  # else NaN is 0
    cover = None
    if with_cover:
        cover = nodes(_integers(trees, "internal_count", n_splits))
        cover[leaf] = _integers(trees, "leaf_count", n_leaves)
    arrays = TreeArrays(
        left=sides[0],
        right=sides[1],
        column=columns,
        threshold=nodes(_thresholds(threshold).astype(np.float32)),
        missing=nodes(np.where(nan_side & ~is_category, LEFT, RIGHT)),
        words=nodes(positions),
        value=nodes(value[:, None], leaf),
        cover=cover,
    )
    return pack_trees(arrays, roots, np.arange(len(trees)) % n_outputs, words, n_columns), gains


def _block(position: int, block: str) -> dict[str, str]:
    """Return the fields of a tree, whose block begins with its number."""
    number, _, lines = block.partition("\n")
    if number != str(position):
        raise ValueError(f"expected the tree {position}; got {number!r:.40}")
    try:
        return _fields(lines)
    except ValueError as error:
        raise ValueError(f"tree {position}: {error}") from None


def _thresholds(threshold: HostArray) -> HostArray:
    """Return the float32 that decide like float64 thresholds on numbers of which those near 0 are 0."""
    near = np.where(threshold >= 0, np.float32(ZERO), BELOW_ZERO)
    return np.where(np.abs(threshold) <= ZERO, near, at_most(threshold))


def _add_categories(
    trees: Trees, position: int, nodes: HostArray, threshold: HostArray, words: CategoryWords
) -> HostArray:
    """Append the category sets of a tree; return the position of each split's set, 0 for numeric splits.

    A set bit sends a category to the left; all other categories, and missing values, go to the right.
    """
    positions = np.zeros(len(threshold), np.int64)
    n_sets = _count(trees, position, "num_cat", 0)
    # The lengths first: the number is untrusted, and that many indices might not fit into memory.
    if n_sets != len(nodes) or not np.array_equal(np.sort(threshold[nodes]), np.arange(n_sets)):
        raise ValueError(f"tree {position}: its category sets do not match its categorical splits")
    if n_sets == 0:
        return positions
    own = trees[position : position + 1]
    ends = _integers(own, "cat_boundaries", [n_sets + 1], position)
    if ends[0] != 0 or (np.diff(ends) < 1).any():
        raise ValueError(f"tree {position}: the bounds of its category sets are invalid")
    bits = _integers(own, "cat_threshold", [int(ends[-1])], position)
    if ((bits < 0) | (bits >> WORD != 0)).any() or np.diff(ends).max() > MAX_CATEGORY // WORD:
        raise ValueError(f"tree {position}: its category sets are invalid")
    for node in nodes:
        start, end = ends[int(threshold[node])], ends[int(threshold[node]) + 1]
        positions[node] = words.add_words(~bits[start:end].astype(np.uint32), RIGHT, RIGHT)
    return positions


def _fields(text: str) -> dict[str, str]:
    """Return the values of ``name=value`` lines; a name without "=" has an empty one."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if name in found:
            raise ValueError(f"{name!r:.40} occurs twice")
        if name:
            found[name] = value
    return found


def _integer(fields: Mapping[str, str], name: str, low: int) -> int:
    try:
        value = int(fields.get(name, ""))
    except ValueError:
        raise ValueError(f"expected a number of {name}; got {fields.get(name, '')!r:.40}") from None
    if not low <= value < 1 << 62:
        raise ValueError(f"{name} is {value}; expected at least {low}")
    return value


def _count(trees: Trees, position: int, name: str, low: int) -> int:
    try:
        return _integer(trees[position], name, low)
    except ValueError as error:
        raise ValueError(f"tree {position}: {error}") from None


def _integers(trees: Trees, name: str, sizes: Sequence[int] | HostArray, first: int = 0) -> HostArray:
    return _parsed(trees, name, sizes, int, np.int64, first)


def _numbers(trees: Trees, name: str, sizes: Sequence[int] | HostArray) -> HostArray:
    """Return the numbers of a field; only a threshold may be infinite: it divides numbers from missing values."""
    found = _parsed(trees, name, sizes, float, np.float64)
    if np.isnan(found).any() or (name != "threshold" and np.isinf(found).any()):
        raise ValueError(f"{name} has a number that is not finite")
    return found


def _parsed(
    trees: Trees, name: str, sizes: Sequence[int] | HostArray, parse: Any, dtype: Any, first: int = 0
) -> HostArray:
    """Return the values of a field of all trees, one after the other."""
    texts = [tree.get(name, "").split() for tree in trees]
    for position, (found, size) in enumerate(zip(texts, sizes, strict=True), first):
        if len(found) != size:
            raise ValueError(f"tree {position}: expected {size:,} numbers of {name}; got {len(found):,}")
    try:
        return np.array(list(map(parse, chain.from_iterable(texts))), dtype)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} has a value that is not a number") from None
