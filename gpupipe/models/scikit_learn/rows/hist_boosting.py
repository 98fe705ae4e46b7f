"""Row estimator of scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.models.fitted.tree_sums import tree_sums

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Scale
    from gpupipe.models.contributions.trees import ExplainedTrees
    from gpupipe.typing import HostArray
    from gpupipe_kernels.engines import HostEngine
    from gpupipe_kernels.rows.trees import CategoryWords, PackedTrees

HIST_BOOSTING = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
MAX_CATEGORY = 1 << 16  # a larger one would need long words of bits in every split


def boosting_scores(boosting: Any, engine: HostEngine) -> Callable[[HostArray], HostArray] | None:
    """Return the function from rows, float32, shape (n, d), to raw scores, float64, shape (n, n_outputs), in columns.

    None if a category is not an integer from 0 to 65,535: scikit-learn itself predicts such models.
    A row with an infinite category is refused with scikit-learn's message.
    """
    import numpy as np

    packed = pack_boosting(boosting)
    if packed is None:
        return None
    sums = tree_sums(packed, _start(boosting), engine)
    has_categories = boosting._preprocessor is not None
    is_category = np.asarray(boosting.is_categorical_) if has_categories else np.zeros(boosting.n_features_in_, bool)

    def scores(X: HostArray) -> HostArray:
        if np.isinf(X).any(where=is_category):
            boosting._preprocess_X(X, reset=False)  # raises scikit-learn's error
        return sums(X)

    return scores


def explained_boosting(boosting: Any) -> ExplainedTrees | None:
    """Return the trees of a model; None if a walk cannot read its categories."""
    from gpupipe.models.contributions.trees import ExplainedTrees

    packed = pack_boosting(boosting)
    if packed is None:
        return None
    link = type(boosting._loss.link).__name__
    scale: Scale = "log-odds" if hasattr(boosting, "classes_") else "log of the value" if link == "LogLink" else "score"
    return ExplainedTrees(packed, _start(boosting), scale)


def _start(boosting: Any) -> HostArray:
    """Return the first term of each sum."""
    import numpy as np

    start: HostArray = 0.0 + np.asarray(boosting._baseline_prediction, np.float64).reshape(-1)
    return start


def inverse_link(boosting: Any) -> Callable[[HostArray], HostArray]:
    """Return the function from raw scores to probabilities, shape (n, n_classes), or to values, shape (n,).

    It is that of the loss of scikit-learn. Its softmax adds many classes in another order for one row than for several,
    so a row is transformed as the first of two.
    """
    import numpy as np

    loss = boosting._loss
    if not hasattr(boosting, "classes_"):
        return lambda scores: loss.link.inverse(scores.ravel())

    def probability(scores: HostArray) -> HostArray:
        rows = np.repeat(scores, 2, axis=0) if len(scores) == 1 and scores.shape[1] > 1 else scores
        shares: HostArray = loss.predict_proba(np.asfortranarray(rows))
        return shares[: len(scores)]

    return probability


def _encodings(boosting: Any) -> list[tuple[HostArray, HostArray]]:
    """Return the categories of each categorical column, without NaN, and their codes in the trees."""
    import numpy as np

    if boosting._preprocessor is None:
        return []
    encoder = boosting._preprocessor.named_transformers_["encoder"]
    known = [np.asarray(categories, np.float64) for categories in encoder.categories_]
    known = [values[~np.isnan(values)] for values in known]
    rows = np.full((max(map(len, known)), len(known)), np.nan)
    for j, values in enumerate(known):
        rows[: len(values), j] = values
    codes = encoder.transform(rows)  # of all columns at once: a call takes some milliseconds for each column
    return [(values, codes[: len(values), j]) for j, values in enumerate(known)]


def pack_boosting(boosting: Any) -> PackedTrees | None:
    """Return the trees of a model; None if a category is not an integer from 0 to 65,535."""
    import numpy as np

    from gpupipe_kernels.rows.trees import LEAF, LEFT, RIGHT, CategoryWords, TreeArrays, at_most, join_nodes, pack_trees

    encodings = _encodings(boosting)
    if any((values < 0).any() or (values > MAX_CATEGORY - 1).any() or (values % 1).any() for values, _ in encodings):
        return None
    n_columns = boosting.n_features_in_
    column_of = np.arange(n_columns)
    if boosting._preprocessor is not None:  # it reorders the columns, categories first
        is_category = np.asarray(boosting.is_categorical_)
        column_of = np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])
    known, known_of = boosting._bin_mapper.make_known_categories_bitsets()
    predictors = list(chain.from_iterable(boosting._predictors))
    outputs = list(chain.from_iterable(range(len(iteration)) for iteration in boosting._predictors))
    trees = [predictor.nodes for predictor in predictors]
    words = CategoryWords(is_exact=True)
    positions = []
    for predictor in predictors:
        position = np.zeros(len(predictor.nodes), np.int64)
        for at in np.flatnonzero((predictor.nodes["is_categorical"] != 0) & (predictor.nodes["is_leaf"] == 0)):
            node = predictor.nodes[at]
            left = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
            feature = node["feature_idx"]
            missing = LEFT if node["missing_go_to_left"] else RIGHT
            position[at] = _add_split(words, encodings[feature], left, known[known_of[feature]], missing)
        positions.append(position)
    shifts = np.cumsum([0, *map(len, trees)])
    nodes = join_nodes(trees)
    tree_shift = np.repeat(shifts[:-1], np.diff(shifts))
    is_leaf = nodes["is_leaf"] != 0
    arrays = TreeArrays(
        left=np.where(is_leaf, LEAF, nodes["left"] + tree_shift),
        right=np.where(is_leaf, LEAF, nodes["right"] + tree_shift),
        column=column_of[np.where(is_leaf, 0, nodes["feature_idx"])],
        threshold=at_most(nodes["num_threshold"]),
        missing=np.where(nodes["missing_go_to_left"] != 0, LEFT, RIGHT),
        words=join_nodes(positions),
        value=nodes["value"][:, None],
        cover=nodes["count"],
    )
    return pack_trees(arrays, shifts[:-1], np.array(outputs, np.int64), words, n_columns)


def _add_split(
    words: CategoryWords, encoding: tuple[HostArray, HostArray], left: HostArray, known: HostArray, missing: int
) -> int:
    """Append the categories of a split, from bit sets of codes; return its position.

    A category that is not known goes where missing values go.
    """
    import numpy as np

    from gpupipe_kernels.rows.trees import RIGHT, WORD

    values, codes = (array.astype(np.int64) for array in encoding)
    goes_left, is_known = (((bits[codes // WORD] >> (codes % WORD)) & 1).astype(bool) for bits in (left, known))
    if missing == RIGHT:
        everything = np.arange((int(values.max(initial=-1)) // WORD + 1) * WORD)
        right = np.setdiff1d(everything, values[goes_left])
    else:
        right = values[~goes_left & is_known]
    return words.add(right, missing, missing)
