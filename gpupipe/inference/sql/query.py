"""One query of layers: each named value is computed once, in the first common table expression after its operands.

Values that later layers read are carried along; others are dropped. Engines would otherwise copy the expression of a
value to each place that reads it, so the layers are materialized where the dialect has the word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from gpupipe.inference.sql.dialect import Expr, SqlDialect, case, column, is_null

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = "source"  # alias of the table with the raw columns
MATERIALIZED = ("postgres", "sqlite")
LONGEST_CASE = 64  # entries; longer lookup tables are joined


@dataclass(frozen=True)
class LookupTable:
    """A lookup table that is joined: the column `key` of the table `name`, by the named value `of`."""

    name: str
    key: str
    value: str
    of: str
    entries: Sequence[tuple[Expr, Expr]]


@dataclass(frozen=True)
class NamedValue:
    """A value of the query, its layer and the names that it reads."""

    expression: Expr
    layer: int
    reads: frozenset[str]
    joined: LookupTable | None = None


class SqlQuery:
    """Builder of a query from the raw columns of a table."""

    def __init__(self, dialect: SqlDialect, prefix: str = "") -> None:
        self.dialect, self.prefix = dialect, prefix  # of the names of its common tables
        self._values: dict[str, NamedValue] = {}
        self._names: dict[Expr, str] = {}
        self.n_joined = 0
        self.n_leaves = 0  # of all trees so far

    def __repr__(self) -> str:
        return f"SqlQuery({self.dialect.name}, {len(self._values)} values)"

    def raw(self, name: str) -> Expr:
        """Return a raw column; qualified, because a quoted name without a column is a text in SQLite."""
        return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(SOURCE))

    def define(self, expression: Expr) -> exp.Column:
        """Return a named value; equal expressions are computed once."""
        if isinstance(expression, exp.Column) and not expression.table:
            return expression.copy()
        if expression not in self._names:
            self._names[expression] = self._add(expression)
        return column(self._names[expression])

    def look_up(self, key: Expr, entries: Mapping[Expr, Expr], default: Expr) -> exp.Column:
        """Return the value of a key in a lookup table, else `default`; long tables are joined."""
        if len(entries) <= LONGEST_CASE:
            return self.define(case([(key.copy().eq(known), found) for known, found in entries.items()], default))
        of = self.define(key).name
        self.n_joined += 1
        n = self.n_joined
        joined = LookupTable(f"{self.prefix}lookup_{n}", f"key_{n}", f"value_{n}", of, list(entries.items()))
        found = case([(is_null(column(joined.key)), default)], column(joined.value))
        return column(self._add(found, joined))

    def add(self, expression: Expr) -> exp.Column:
        """Return a named value of an expression that no other value has."""
        return column(self._add(expression))

    def _add(self, expression: Expr, joined: LookupTable | None = None) -> str:
        own = {joined.key, joined.value} if joined else set()
        reads = frozenset(_columns_of(expression) - own) | ({joined.of} if joined else set())
        layer = 1 + max((self._values[name].layer for name in reads), default=0)
        name = f"v{len(self._values) + 1}"
        self._values[name] = NamedValue(expression, layer, reads, joined)
        return name

    def select(
        self, table: Expr, keys: Sequence[str], outputs: Mapping[str, Expr], before: Sequence[exp.CTE] = ()
    ) -> exp.Select:
        """Return the query of some outputs by name; `keys` are raw columns to copy, `before` common tables it reads."""
        known = self._values
        wanted = set[str]().union(*map(_columns_of, outputs.values()))
        n_layers = max((known[name].layer for name in wanted), default=0)
        needed: list[set[str]] = [set() for _ in range(n_layers + 1)]  # after each layer
        needed[n_layers] = wanted
        for layer in range(n_layers, 0, -1):
            here = [name for name in needed[layer] if known[name].layer == layer]
            needed[layer - 1] = (needed[layer] - set(here)).union(*(known[name].reads for name in here))
        copied = {f"k{i}": self.raw(name) for i, name in enumerate(keys, 1)}
        tables: list[exp.CTE] = list(before)
        source: Expr = exp.alias_(table, SOURCE, table=True)
        for layer in range(1, n_layers + 1):
            names = sorted(needed[layer], key=lambda name: (known[name].layer, int(name[1:])))
            own = {name: known[name] for name in names if known[name].layer == layer}
            query = exp.Select(
                expressions=[
                    *(_named(found, name) for name, found in copied.items()),
                    *(_named(own[name].expression, name) if name in own else column(name) for name in names),
                ]
            ).from_(source, copy=False)
            for each in own.values():
                if each.joined is not None:
                    tables.append(self._lookup_table(each.joined))
                    on = column(each.joined.key).eq(column(each.joined.of))
                    query = query.join(exp.to_table(each.joined.name), on=on, join_type="left", copy=False)
            tables.append(_cte(query, f"{self.prefix}layer_{layer}", self.dialect.name in MATERIALIZED))
            copied = {name: column(name) for name in copied}
            source = exp.to_table(f"{self.prefix}layer_{layer}")
        last = [exp.alias_(found, key, quoted=True) for key, found in zip(keys, copied.values(), strict=True)]
        last += [exp.alias_(found, name, quoted=True) for name, found in outputs.items()]
        select = exp.Select(expressions=last).from_(source, copy=False)
        select.set("with_", exp.With(expressions=tables) if tables else None)
        return select

    def _lookup_table(self, table: LookupTable) -> exp.CTE:
        rows = exp.Values(expressions=[exp.Tuple(expressions=[*entry]) for entry in table.entries])
        if self.dialect.name in ("duckdb", "sqlite"):
            return _cte(rows, table.name, False, table.key, table.value)
        rows.set("alias", exp.TableAlias(this=exp.to_identifier("entries"), columns=_names_of(table)))
        return _cte(exp.Select(expressions=[exp.Star()]).from_(rows, copy=False), table.name, False)


def common_tables(name: str, query: exp.Select, dialect: SqlDialect, is_shared: bool = False) -> list[exp.CTE]:
    """Return the common tables of a query, and the query as the last one; several later ones read it if `is_shared`."""
    own = query.args.get("with_")
    query.set("with_", None)
    is_materialized = dialect.name in MATERIALIZED or (is_shared and dialect.name == "duckdb")
    return [*(own.expressions if own else ()), _cte(query, name, is_materialized)]


def _names_of(table: LookupTable) -> list[exp.Identifier]:
    return [exp.to_identifier(table.key), exp.to_identifier(table.value)]


def _columns_of(expression: Expr) -> set[str]:
    """Return the names of the values that an expression reads; raw columns are qualified."""
    return {each.name for each in expression.find_all(exp.Column) if not each.table}


def _named(found: Expr, name: str) -> Expr:
    return exp.Alias(this=found, alias=exp.to_identifier(name))


def _cte(query: Expr, name: str, is_materialized: bool, *columns: str) -> exp.CTE:
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier(each) for each in columns])
    return exp.CTE(this=query, alias=alias, materialized=True) if is_materialized else exp.CTE(this=query, alias=alias)
