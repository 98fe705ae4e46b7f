"""Compiled walk of packed trees, one row after the other, without the interpreter lock."""

from __future__ import annotations

from llvmlite import binding
from numba import types
from numpy import float32, float64, int32, int64, uint32

from gpupipe_kernels.launch import array_formula, formula, host_walk
from gpupipe_kernels.rows.libm import address_of
from gpupipe_kernels.rows.links import MAX_EXPONENT, Link
from gpupipe_kernels.rows.trees import HIGHEST, LOWEST, MAX_CATEGORY, WORD

# Under separate names, since LLVM may replace a call of exp with a vector function that rounds differently.
binding.add_symbol("gpupipe_expf", address_of("expf"))
binding.add_symbol("gpupipe_exp", address_of("exp"))
_expf = types.ExternalFunction("gpupipe_expf", types.float32(types.float32))
_exp = types.ExternalFunction("gpupipe_exp", types.float64(types.float64))

_IDENTITY, _EXP, _SIGMOID, _SOFTMAX = (int64(int(link)) for link in Link)
_MOST = float32(MAX_EXPONENT)
_CATEGORIES = float32(MAX_CATEGORY)
_LOWEST, _HIGHEST = int32(LOWEST), int32(HIGHEST)


@array_formula
def fill_table(X, row, words, table):
    """Write the numbers of a row that nodes compare: see `gpupipe_kernels.rows.trees.PackedTrees`."""
    d = X.shape[1]
    table[0] = _LOWEST
    for j in range(d):
        x = X[row, j]
        bits = float32(x).view(int32)
        code = bits ^ ((bits >> int32(31)) & _HIGHEST)
        table[1 + j] = code if x == x else _LOWEST
        table[1 + d + j] = code if x == x else _HIGHEST
    if table.shape[0] > 1 + 2 * d:
        for j in range(d):
            x = X[row, j]
            number = int32(0) if x != x else _HIGHEST  # the words of missing and of other values
            if x >= float32(0) and x < _CATEGORIES:
                category = int32(x)
                if words[0] == uint32(0) or float32(category) == x:
                    number = int32(category + int32(WORD))
            table[1 + 2 * d + j] = number


@array_formula
def side_of(number, node, words):
    """Return 0 if a row with this number goes to the left at a node, 1 if to the right; int32."""
    if node.words > int32(0):
        word = number >> int32(5)
        word = word if word < node.code else node.code
        return int32(uint32(words[node.words + word] >> uint32(number & int32(31))) & uint32(1))
    return int32(number > node.code)


@array_formula
def _leaf(table, nodes, words, root, depth):
    """Return the position of the values of the leaf that a row reaches in a tree."""
    at = root
    for _ in range(depth):
        node = nodes[at]
        to = int32(node.child + side_of(table[node.column], node, words))
        if to == at:  # a leaf
            break
        at = to
    return nodes[at].code


@host_walk
def count_rows(X, nodes, trees, words, table, counts):
    """Add to `counts` the number of rows that reach each node.

    Parameters
    ----------
    X : array of float32, shape (n, d), C-contiguous
    nodes, trees, words : array
        As in `gpupipe_kernels.rows.trees.PackedTrees`.
    table : array of int32, shape (width,)
        Memory for the numbers of a row.
    counts : array of float64, shape (n_nodes,)
    """
    for row in range(X.shape[0]):
        fill_table(X, row, words, table)
        for t in range(trees.shape[0]):
            at = trees[t].root
            counts[at] += 1.0
            while nodes[at].child != at:
                node = nodes[at]
                at = int32(node.child + side_of(table[node.column], node, words))
                counts[at] += 1.0


@formula
def _sigmoid(margin):
    x = -margin
    x = _MOST if x > _MOST else x
    return float32(1) / (_expf(x) + float32(1))


@host_walk
def add_float32(X, nodes, trees, words, values, table, link, out):
    """Add the leaf values of each tree to `out` in the order of the trees, in float32, and apply a `Link`.

    Parameters
    ----------
    X : array of float32, shape (n, d), C-contiguous
    nodes, trees, words, values : array
        As in `gpupipe_kernels.rows.trees.PackedTrees`, with float32 values, shape (n_leaves, m).
    table : array of int32, shape (width,)
        Memory for the numbers of a row.
    out : array of float64, shape (n, n_outputs)
        First term of each sum; overwritten with the predictions, rounded to float32.
    """
    n_outputs = out.shape[1]
    for row in range(X.shape[0]):
        fill_table(X, row, words, table)
        if n_outputs == 1:
            total = float32(out[row, 0])
            for t in range(trees.shape[0]):
                total = float32(total + values[_leaf(table, nodes, words, trees[t].root, trees[t].depth), 0])
            if link == _SIGMOID:
                total = _sigmoid(total)
            elif link == _EXP:
                total = _expf(total)
            out[row, 0] = total
            if link == _SOFTMAX:
                out[row, 0] = _expf(float32(total - total)) / float32(1)
            continue
        for t in range(trees.shape[0]):
            output = trees[t].output
            leaf = _leaf(table, nodes, words, trees[t].root, trees[t].depth)
            for j in range(values.shape[1]):
                out[row, output + j] = float32(float32(out[row, output + j]) + values[leaf, j])
        if link == _SOFTMAX:
            _softmax(out, row)
        elif link == _SIGMOID:
            for j in range(n_outputs):
                out[row, j] = _sigmoid(float32(out[row, j]))
        elif link == _EXP:
            for j in range(n_outputs):
                out[row, j] = _expf(float32(out[row, j]))


@host_walk
def add_forests_float32(X, nodes, trees, words, values, ends, table, link, out):
    """Apply `add_float32` to several models; the numbers of a row are written once for all of them.

    Parameters
    ----------
    X, nodes, trees, words, values, table, link
        As in `add_float32`, of all models together: see `gpupipe_kernels.rows.trees.join_forests`.
    ends : array of int64, shape (n_models,)
        Number of trees of the models up to, and including, each.
    out : array of float64, shape (n * n_models, n_outputs)
        As in `add_float32`, for each model of each row.
    """
    n_models, n_outputs = ends.shape[0], out.shape[1]
    for row in range(X.shape[0]):
        fill_table(X, row, words, table)
        start = int64(0)
        for model in range(n_models):
            at = row * n_models + model
            if n_outputs == 1:
                total = float32(out[at, 0])
                for t in range(start, ends[model]):
                    total = float32(total + values[_leaf(table, nodes, words, trees[t].root, trees[t].depth), 0])
                if link == _SIGMOID:
                    total = _sigmoid(total)
                elif link == _EXP:
                    total = _expf(total)
                out[at, 0] = total
            else:
                first = model * n_outputs
                for t in range(start, ends[model]):
                    output = trees[t].output - first
                    leaf = _leaf(table, nodes, words, trees[t].root, trees[t].depth)
                    out[at, output] = float32(float32(out[at, output]) + values[leaf, 0])
                if link == _SOFTMAX:
                    _softmax(out, at)
            start = ends[model]


@array_formula
def _softmax(out, row):
    """Replace the margins in a row of `out` by the softmax that XGBoost computes in float32."""
    n_outputs = out.shape[1]
    largest = float32(out[row, 0])
    for j in range(1, n_outputs):
        value = float32(out[row, j])
        largest = value if value > largest or largest != largest else largest
    total = float64(0)
    for j in range(n_outputs):
        grown = _expf(float32(float32(out[row, j]) - largest))
        out[row, j] = grown
        total += float64(grown)
    for j in range(n_outputs):
        out[row, j] = float32(float32(out[row, j]) / float32(total))


@host_walk
def add_float64(X, nodes, trees, words, values, table, out):
    """Add the leaf values of each tree to `out` in the order of the trees, in float64.

    Parameters
    ----------
    X : array of float32, shape (n, d), C-contiguous
    nodes, trees, words, values : array
        As in `gpupipe_kernels.rows.trees.PackedTrees`, with float64 values, shape (n_leaves, m).
    table : array of int32, shape (width,)
        Memory for the numbers of a row.
    out : array of float64, shape (n, n_outputs)
        First term of each sum; overwritten with the sums.
    """
    for row in range(X.shape[0]):
        fill_table(X, row, words, table)
        for t in range(trees.shape[0]):
            output = int64(trees[t].output)
            leaf = _leaf(table, nodes, words, trees[t].root, trees[t].depth)
            for j in range(values.shape[1]):
                out[row, output + j] += values[leaf, j]


@host_walk
def transform_float64(link, out):
    """Replace sums by predictions with a `Link`, as LightGBM computes it.

    Parameters
    ----------
    out : array of float64, shape (n, n_outputs)
        Sums of leaf values; overwritten.
    """
    n_outputs = out.shape[1]
    for row in range(out.shape[0]):
        if link == _SOFTMAX:
            largest = out[row, 0]
            for j in range(1, n_outputs):
                largest = max(out[row, j], largest)
            total = 0.0
            for j in range(n_outputs):
                out[row, j] = _exp(out[row, j] - largest)
                total += out[row, j]
            for j in range(n_outputs):
                out[row, j] /= total
            continue
        for j in range(n_outputs):
            if link == _SIGMOID:
                out[row, j] = 1.0 / (1.0 + _exp(-out[row, j]))
            elif link == _EXP:
                out[row, j] = _exp(out[row, j])
