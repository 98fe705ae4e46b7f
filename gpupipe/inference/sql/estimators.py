"""Estimators in SQL: from the columns of the feature matrix to predictions; a tree is one CASE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlglot import exp

from gpupipe.errors import ConfigError
from gpupipe.inference.sql.dialect import Expr, case, column, integer, is_in, is_null, number, total
from gpupipe.inference.sql.inputs import Cell
from gpupipe.inference.targets.estimators import EstimatorTarget
from gpupipe.inference.targets.tree_splits import category_bits, number_splits, split_columns
from gpupipe_kernels.rows.links import Link

if TYPE_CHECKING:
    from gpupipe.inference.sql.query import SqlQuery
    from gpupipe.inference.targets.exact_columns import ExactColumn
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.models.contributions.trees import ExplainedTrees
    from gpupipe.models.fitted.base import FittedModel
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.trees import PackedTrees

TREES_A_SUM = 64  # engines limit the size of an expression
MOST_LEAVES = 100_000  # in one query, of some 7 MB
LOW = 8  # levels; in a higher tree, the higher side of a split is ELSE, which engines do not nest


@dataclass
class EstimatorExpressions(EstimatorTarget[list[Expr]]):
    """Writer of estimators; a matrix is a list of expressions."""

    query: SqlQuery
    X: Sequence[Cell]  # the columns of the feature matrix
    n_codes: Sequence[int]  # number of codes of each column; 0 for numbers
    registers: Sequence[Cell] = ()  # the value registers of the feature program
    exact: Mapping[int, ExactColumn] = field(default_factory=dict)  # columns that trees split by an operand

    def of_columns(self, columns: Sequence[int]) -> EstimatorExpressions:
        """Return the writer for some columns of the matrix."""
        exact = {i: self.exact[each] for i, each in enumerate(columns) if each in self.exact}
        X, n_codes = [self.X[each] for each in columns], [self.n_codes[each] for each in columns]
        return EstimatorExpressions(self.query, X, n_codes, self.registers, exact)

    def select(self, found: list[Expr], columns: Sequence[int], width: int) -> list[Expr]:
        """Return some columns of a matrix."""
        return [found[i].copy() for i in columns]

    def join(self, parts: Sequence[list[Expr]]) -> list[Expr]:
        """Return the columns of several matrices."""
        return list(chain.from_iterable(parts))

    def zeros(self, like: list[Expr], width: int) -> list[Expr]:
        """Return a column of zeros."""
        return [self.query.dialect.double(0.0)]

    def opposite(self, probability: list[Expr]) -> list[Expr]:
        """Return 1 less a column."""
        return [number(1.0) - self.query.define(each) for each in probability]

    def weighted_sum(self, terms: Sequence[tuple[list[Expr], HostArray]]) -> list[Expr]:
        """Return the sum of matrices, each times its weight."""
        weighted = [
            [self.query.define(x) * number(float(unit)) for x, unit in zip(each, _spread(weight, each), strict=True)]
            for each, weight in terms
        ]
        return [total(parts) for parts in zip(*weighted, strict=True)]

    def scaled(self, found: list[Expr], unit: HostArray, offset: HostArray) -> list[Expr]:
        """Return a matrix times `unit` plus `offset`."""
        each = zip(found, _spread(unit, found), _spread(offset, found), strict=True)
        return [self.query.define(x) * number(float(by)) + number(float(shift)) for x, by, shift in each]

    def in_order(self, found: list[Expr], width: int) -> list[Expr]:
        """Return the numbers of each row in ascending order, by an odd-even transposition sort."""
        extreme = self.query.dialect.extreme
        ordered: list[Expr] = [self.query.define(each) for each in found]
        for turn in range(width):
            for i in range(turn % 2, width - 1, 2):
                pair = [ordered[i], ordered[i + 1]]
                ordered[i : i + 2] = [self.query.define(extreme(word, _copies(pair))) for word in ("MIN", "MAX")]
        return ordered

    def linked(self, margins: list[Expr], link: Link) -> list[Expr]:
        """Return predictions of margins."""
        dialect = self.query.dialect
        if link == Link.IDENTITY:
            return margins
        named: list[Expr] = [self.query.define(each) for each in margins]
        if link == Link.EXP:
            return [exp.Exp(this=dialect.clipped(each, 709.0)) for each in named]
        return softmax(self.query, named) if link == Link.SOFTMAX else [dialect.sigmoid(each) for each in named]

    def trees(self, packed: PackedTrees, start: HostArray) -> list[Expr]:
        """Return sums of leaves; raise ConfigError if engines would take minutes to plan them."""
        self.query.n_leaves += (len(packed.nodes) + len(packed.trees)) // 2
        if self.query.n_leaves > MOST_LEAVES:
            what = f"the trees have {self.query.n_leaves:,} leaves; databases take minutes to plan a query of more than"
            fix = "train fewer or smaller trees, or serve the model with gpupipe serve; no file was written"
            raise ConfigError(f"{what} {MOST_LEAVES:,}", fix=fix)
        return TreeExpressions.of(self, packed).sums(start)

    def oblivious(self, trees: CatBoostTrees, explained: ExplainedTrees) -> list[Expr]:
        """Return the sums of CatBoost's trees without statistics of categories: the outcomes of tests are columns."""
        from gpupipe.models.catboost.rows import category_hash

        splits = NumberTests(trees.number_column, trees.number_border, trees.number_missing.astype(bool))
        outcomes = [self._test(*each) for each in zip(*splits, strict=True)]
        for own, hashed in zip(trees.category_column.tolist(), trees.category_hash.tolist(), strict=True):
            codes = [code for code in range(self.n_codes[own]) if category_hash(code) == hashed]
            x = column(self.X[own].name)
            outcomes.append(case([(is_in(x, map(integer, codes)), number(1.0))] if codes else [], number(0.0)))
        tested = [Cell(self.query.define(each).name) for each in outcomes]
        own = replace(self, X=tested, n_codes=[0] * len(tested), exact={})
        return own.trees(explained.packed, explained.start)

    def _test(self, own: int, border: float, missing: bool) -> Expr:
        """Return 1 where a number exceeds a border, else 0."""
        limit = np.array([float(border)])
        operand = self.X[own]
        if own in self.exact:
            limit, operand = self.exact[own].limits(limit), self.operand(own)
        split = self.query.dialect.is_left(column(operand.name), float(limit[0]), operand.is_rounded)
        one, zero = number(1.0), number(0.0)
        known = one if limit[0] == -np.inf else zero
        branches = [(is_null(column(operand.name)), one if missing else zero)]
        return case([*branches, (split, zero)], one) if split is not None else case(branches, known)

    def operand(self, own: int) -> Cell:
        """Return the operand of an exact column; null where it has no image."""
        exact = self.exact[own]
        operand, image = (self.registers[register] for register in (exact.operand, exact.image))
        branches = [(exp.Not(this=is_null(column(image.name))), column(operand.name))]
        return Cell(self.query.define(case(branches, None)).name, operand.is_rounded)

    def linear(self, coef: HostArray, intercept: HostArray) -> list[Expr]:
        """Return the scores of a linear model."""
        scores = []
        for row, constant in zip(np.asarray(coef, np.float64), np.asarray(intercept, np.float64), strict=True):
            terms = [column(x.name) * number(float(by)) for x, by in zip(self.X, row, strict=True)]
            scores.append(total([self.query.dialect.double(float(constant)), *terms]))
        return scores

    def network(self, model: FittedModel) -> tuple[list[Expr], int]:
        """Raise NotImplementedError: networks are refused before anything is written."""
        raise NotImplementedError


class NumberTests(NamedTuple):
    """CatBoost's tests of numbers: column, border, and whether a missing number passes."""

    column: HostArray
    border: HostArray
    missing: HostArray


@dataclass
class TreeExpressions:
    """Trees as CASE expressions."""

    target: EstimatorExpressions
    packed: PackedTrees
    X: list[Cell]  # the columns of the matrix, and operands of exact columns
    column: list[int]
    limit: list[float]
    missing_left: list[bool]
    child: list[int]
    right_codes: Mapping[int, list[int]]  # of splits by categories
    height: list[int]

    @classmethod
    def of(cls, target: EstimatorExpressions, packed: PackedTrees) -> TreeExpressions:
        """Return the trees with their splits decoded."""
        splits, own = number_splits(packed), split_columns(packed)
        read = [each for each in target.exact if (splits.column == each).any()]
        splits = splits.by_operand(
            {each: target.exact[each] for each in read}, {each: len(target.X) + i for i, each in enumerate(read)}
        )
        by_set = packed.nodes["words"] > 0
        right = {}
        for node in np.flatnonzero(by_set).tolist():
            bits = category_bits(packed, [node], target.n_codes[own[node]])
            right[node] = np.flatnonzero(bits[0]).tolist()
        child = packed.nodes["child"].tolist()
        height = [0] * len(child)
        for node in range(len(child) - 1, -1, -1):  # children come after their parents
            left = child[node]
            height[node] = 0 if left == node else 1 + max(height[left], height[left + 1])
        return cls(
            target,
            packed,
            [*target.X, *map(target.operand, read)],
            np.where(by_set, own, splits.column).tolist(),
            splits.limit.tolist(),
            splits.missing_left.tolist(),
            child,
            right,
            height,
        )

    def sums(self, start: HostArray) -> list[Expr]:
        """Return the sums of the leaves of all trees for each output."""
        query, values = self.target.query, self.packed.values
        terms: list[list[Expr]] = [[] for _ in start]
        for root, _, output in self.packed.trees.tolist():
            for place, each in [(output, 0)] if values.shape[1] == 1 else [(i, i) for i in range(len(start))]:
                terms[place].append(self._tree(root, values[:, each].astype(np.float64)))
        sums = []
        for first, own in zip(start.tolist(), terms, strict=True):
            parts = [own[i : i + TREES_A_SUM] for i in range(0, len(own), TREES_A_SUM)]
            named: list[Expr] = [query.add(total([_in_parentheses(each) for each in part])) for part in parts]
            sums.append(total([query.dialect.double(first), *named]))
        return sums

    def _tree(self, node: int, values: HostArray) -> Expr:
        left = self.child[node]
        if left == node:
            return self.target.query.dialect.leaf(float(values[self.packed.nodes["code"][node]]))
        condition, is_left = self._condition(node)
        sides = (left, left + 1) if is_left else (left + 1, left)
        if condition is None:
            return self._tree(sides[0], values)
        chosen, other = (self._tree(side, values) for side in sides)
        branches = [(condition, chosen)]
        if isinstance(other, exp.Case):
            branches += [(each.this, each.args["true"]) for each in other.args["ifs"]]
            other = other.args["default"]
        return case(branches, other)

    def _condition(self, node: int) -> tuple[Expr | None, bool]:
        """Return a condition and whether its rows go to the left; no condition: all rows go to that side."""
        left = self.child[node]
        cell = self.X[self.column[node]]
        x = column(cell.name)
        if node in self.right_codes:
            n, right = self.target.n_codes[self.column[node]], self.right_codes[node]
            is_left = len(right) > n // 2
            codes = sorted(set(range(n)) - set(right)) if is_left else right
            return (is_in(x, map(integer, codes)), is_left) if codes else (None, not is_left)
        limit, missing_left = self.limit[node], self.missing_left[node]
        below = self.target.query.dialect.is_left(x, limit, cell.is_rounded)
        if below is None:
            all_left = limit > 0
            return (None, all_left) if all_left == missing_left else (is_null(x), missing_left)
        is_left = not missing_left  # a condition on null does not hold: it goes to the other side
        higher_left = self.height[left] > self.height[left + 1]
        if self.height[node] > LOW and higher_left == is_left:
            null = is_null(x.copy())
            return exp.Or(this=_negated(below) if is_left else below, expression=null), not is_left
        return (below if is_left else _negated(below)), is_left


def _negated(condition: Expr) -> Expr:
    node = exp.GTE if isinstance(condition, exp.LT) else exp.GT
    return node(this=condition.this, expression=condition.expression)


def _in_parentheses(x: Expr) -> Expr:
    return exp.Paren(this=x) if isinstance(x, exp.Neg) else x


def softmax(query: SqlQuery, scores: Sequence[Expr]) -> list[Expr]:
    """Return the shares of the exponentials of named scores."""
    dialect = query.dialect
    top = query.define(dialect.extreme("MAX", _copies(scores)))
    powers = [query.define(exp.Exp(this=dialect.clipped(each - top, 700.0))) for each in scores]
    whole = query.define(total(_copies(powers)))
    return [dialect.divide(each, whole.copy()) for each in powers]


def _copies(values: Sequence[Expr]) -> list[Expr]:
    return [each.copy() for each in values]


def _spread(numbers: HostArray, columns: Sequence[Expr]) -> HostArray:
    found: HostArray = np.broadcast_to(np.asarray(numbers, np.float64), len(columns))
    return found
