"""`write_sql`: a whole model as one SQL query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.artifact.untrusted.failures import VERIFY, refuse_failures
from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.files.file import replace_file
from gpupipe.inference.prediction.id_columns import IdColumns, require_free_names
from gpupipe.inference.sql.engines import ROW_COLUMN, ROWS_TABLE, open_engine, require_libraries
from gpupipe.inference.targets.comparison import ExpectedOutputs, RuntimeComparison, compare, expected_outputs
from gpupipe.inference.targets.estimators import single_models
from gpupipe.inference.targets.exact_columns import exact_columns
from gpupipe.inference.targets.refusals import RULES, omitted_parts, require_expressible
from gpupipe.table.blocks import layout
from gpupipe.table.row_encoder import RowEncoder
from gpupipe_kernels.rows.lowering import lower

if TYPE_CHECKING:
    from sqlglot import exp

    from gpupipe.inference.model import Model
    from gpupipe.inference.sql.dialect import SqlDialect
    from gpupipe.inference.sql.inputs import SqlInput
    from gpupipe.inference.sql.outputs import SqlOutput
    from gpupipe.inference.sql.query import SqlQuery
    from gpupipe.typing import HostArray

TOLERANCE = 1e-6  # of a probability
# Of the largest value: XGBoost adds leaves in float32, and 300 of them lose up to some millionths.
VALUE_TOLERANCE = 1e-5
FEATURE = "feature_"  # beginning of the names of features in the query


@dataclass(frozen=True)
class SqlExport:
    """A model as one query, as returned by `gpupipe.Model.to_sql`."""

    text: str  # the query, after comments that describe it
    dialect: str
    inputs: tuple[SqlInput, ...]
    columns: tuple[str, ...]  # names of the columns of the result
    # With the model, on its recorded rows; None if the dialect was not executed.
    comparison: RuntimeComparison | None
    omitted: tuple[str, ...] = ()  # what the model does and the query does not, such as prediction intervals
    events: tuple[str, ...] = ()  # the event tables, each with the columns that the query reads

    def __repr__(self) -> str:
        return f"SqlExport({self.dialect!r}, {len(self.text):,} characters, {len(self.columns)} columns)"

    def write(self, path: Path) -> None:
        """Write the query to a file, or replace it."""
        with replace_file(path) as output:
            output.write(self.text.encode())


@dataclass(frozen=True)
class _ModelQuery:
    """A model as named values of a query; without `predicts`, only its features."""

    query: SqlQuery
    inputs: list[SqlInput]
    features: dict[str, exp.Expr]
    outputs: list[SqlOutput]
    columns: dict[str, exp.Expr]

    @classmethod
    def of(cls, model: Model, dialect: SqlDialect, rounds: bool, predicts: bool = True) -> _ModelQuery:
        """Return the query of a model; see `write_program` for `rounds`."""
        from gpupipe.inference.sql.dialect import column
        from gpupipe.inference.sql.estimators import EstimatorExpressions
        from gpupipe.inference.sql.inputs import write_inputs
        from gpupipe.inference.sql.instructions import write_program
        from gpupipe.inference.sql.outputs import write_outputs
        from gpupipe.inference.sql.query import SqlQuery

        query = SqlQuery(dialect)
        features, schema = model.features.features, model.features.schema
        positions = RowEncoder(schema).positions
        inputs, cells = write_inputs(query, tuple(schema), positions, layout(schema))
        lowered = lower(model.features.program, positions)
        X, registers = write_program(query, lowered, cells, rounds)
        named: dict[str, exp.Expr] = {
            FEATURE + feature.name: column(x.name) for feature, x in zip(features, X, strict=True)
        }
        if not predicts:
            return cls(query, inputs, named, [], {})
        n_codes = [feature.n_codes for feature in features]
        writer = EstimatorExpressions(query, X, n_codes, registers, exact_columns(lowered))
        found = write_outputs(query, writer.write(model.estimator), model.goal, model.decision)
        columns = dict(chain.from_iterable(own.items() for _, own in found))
        return cls(query, inputs, named, [output for output, _ in found], columns)


@dataclass(frozen=True)
class QueryOptions:
    """The arguments of `gpupipe.Model.to_sql` after `dialect`."""

    table: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    as_of: str | None = None
    keys: Sequence[str] = ()
    features: bool = False
    rules: bool = False
    uri: str | None = None


def write_sql(model: Model, dialect: str, options: QueryOptions) -> SqlExport:
    """Return a model as one query, after a comparison of its predictions; see `gpupipe.Model.to_sql`."""
    where, uri = str(model.folder), options.uri
    executes = dialect in ("duckdb", "sqlite") or (dialect == "postgres" and uri is not None)
    if uri is not None and dialect != "postgres":
        raise ConfigError(f"uri: {dialect} needs no server", where=where, fix="omit it, or use dialect postgres")
    require_libraries(dialect, executes, where)
    from gpupipe.inference.sql.dialect import DIALECTS, TITLES, SqlDialect
    from gpupipe.inference.sql.history.comparison import compare_history
    from gpupipe.inference.sql.history.figures import refused_ops
    from gpupipe.inference.sql.history.rows import write_rows
    from gpupipe.inference.sql.history.tables import HistoryTables
    from gpupipe.inference.sql.violations import COLUMN as VIOLATED
    from gpupipe.inference.sql.violations import write_violations

    if dialect not in DIALECTS:
        fix = did_you_mean(dialect, DIALECTS) or f"use one of {', '.join(DIALECTS)}"
        raise ConfigError(f"unknown dialect {dialect!r}", where=where, fix=fix)
    own = SqlDialect(dialect)
    tables = HistoryTables.of(model, options, lambda name: _table(name, dialect))
    refused = [*_refused(model, own), *(() if tables is None else refused_ops(tables, own))]
    require_expressible(model, f"SQL of {TITLES[dialect]}", refused, None, where)
    rounds = options.features or any(each.library == "linear" for each in single_models(model.estimator))
    with refuse_failures("the model cannot be written as SQL", where, VERIFY):
        found = _ModelQuery.of(model, own, rounds)
        columns = {**found.columns, **(found.features if options.features else {})}
        omitted = list(omitted_parts(model))
        inputs = [each for each in found.inputs if not each.column.derived]
        if options.rules:
            columns[VIOLATED], left_out = write_violations(found.query, inputs, model.rules)
            omitted = [each for each in omitted if each != RULES] + left_out
        comparison = _compared(model, own, found, columns, uri) if executes else None
        lines = _description(model, dialect, comparison, inputs, omitted)
        keys, events = list(dict.fromkeys(options.keys)), list[str]()
        before: list[exp.CTE] = []
        source: exp.Expr = _table(options.table or "input", dialect)
        if tables is not None:
            n_compared = compare_history(model, tables, own, uri) if executes else None
            keys, before, source = write_rows(own, source, tables, [each.column.source for each in inputs])
            events = tables.lines()
            made = f"{len(tables.derivation.made)} columns of history"
            executed = "not executed" if n_compared is None else f"those of the model in {n_compared} generated rows"
            lines += [*(f"events {each}" for each in events), f"{made}: {executed}"]
        require_free_names(IdColumns(tuple(keys)), columns)
        text = found.query.select(source, keys, columns, before).sql(dialect, copy=False)
        if comparison is None:
            _require_parsed(text, dialect, where)
    whole = "".join(f"-- {line}\n" for line in map(_one_line, lines)) + f"{text}\n"
    names = (*keys, *columns)
    return SqlExport(whole, dialect, tuple(inputs), names, comparison, tuple(omitted), tuple(events))


def _table(name: str, dialect: str) -> exp.Table:
    """Return a table by its name, as in a query."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    found = None
    with suppress(SqlglotError, ValueError):
        found = exp.to_table(name, dialect=dialect)
    if not isinstance(found, exp.Table) or found.sql(dialect) != name.strip():  # such as one with an alias
        what = f"expected the name of a table; got {name!r}"
        raise ConfigError(what, where="table", fix='write it as in a query: shop.customers, or "my table"')
    return found


def _refused(model: Model, dialect: SqlDialect) -> list[str]:
    """Return what SQL alone cannot express."""
    from gpupipe.inference.sql.inputs import refused_columns

    found = refused_columns(tuple(model.features.schema), dialect)
    for each in single_models(model.estimator):
        if each.library == "catboost" and len(each.estimator.trees.test_statistic):
            found.append("a catboost model with statistics of categories: set one_hot_max_size, or encode them")
    return found


def _compared(
    model: Model,
    dialect: SqlDialect,
    found: _ModelQuery,
    columns: Mapping[str, exp.Expr],
    uri: str | None,
) -> RuntimeComparison:
    """Return the comparison with the model on its recorded rows: of the query, and of the features in another one."""
    from sqlglot import exp

    from gpupipe.inference.sql.dialect import TITLES

    where = str(model.folder)

    def feed(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        own = {each.column.source: each.values(rows) for each in found.inputs}
        return own | {ROW_COLUMN: pa.chunked_array([pa.array(range(len(rows)), pa.int64())])}

    expected = expected_outputs(model, model.open_files(), feed, found.outputs)
    all_rounded = _ModelQuery.of(model, dialect, True, predicts=False)
    source = exp.to_table(ROWS_TABLE)
    with open_engine(dialect.name, expected.feeds, uri, where) as engine:
        outputs = engine.run(found.query.select(source, [ROW_COLUMN], columns).sql(dialect.name))
        names = {f"x{i}": each for i, each in enumerate(all_rounded.features.values())}
        features = engine.run(all_rounded.query.select(source, [ROW_COLUMN], names).sql(dialect.name, copy=False))
    matrix = np.stack([features[name] for name in names], axis=1).astype(np.float32)
    own = {each.name: _values(each, outputs, expected) for each in found.outputs}
    tolerance = TOLERANCE if model.goal.has_classes else VALUE_TOLERANCE
    return compare(TITLES[dialect.name], expected, own, matrix, where, tolerance)


def _values(output: SqlOutput, columns: Mapping[str, HostArray], expected: ExpectedOutputs) -> HostArray:
    """Return the values of an output; labels as texts, as they are expected."""
    from gpupipe.model_parts.goal import label_text

    found = [columns[name] for name in output.names]
    if output.kind != "label":
        return np.stack(found, axis=1) if output.kind in ("probabilities", "quantiles") else found[0]
    is_flag = set(output.columns.tolist()) <= {"true", "false"}
    plain = [_plain(value, is_flag) for value in found[0].tolist()]
    return np.array([label_text(value) for value in plain], object)


def _plain(value: Any, is_flag: bool) -> Any:
    if is_flag and not isinstance(value, str):  # SQLite has numbers instead of flags
        return bool(value)
    return int(value) if isinstance(value, float) else value


def _require_parsed(text: str, dialect: str, where: str) -> None:
    """Raise ConfigError unless the parser of a dialect reads a query, and writes it as the same text."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        is_same = sqlglot.parse_one(text, dialect=dialect).sql(dialect) == text
    except (SqlglotError, RecursionError):
        is_same = False
    if not is_same:
        what = f"the query of {len(text):,} characters is not the same after it is parsed as SQL of {dialect}"
        raise ConfigError(what, where=where, fix="export to duckdb, sqlite or postgres; no file was written")


def _description(
    model: Model,
    dialect: str,
    comparison: RuntimeComparison | None,
    inputs: Sequence[SqlInput],
    omitted: Sequence[str],
) -> list[str]:
    """Return the comments at the top of a file; names are JSON, which has no ends of lines."""
    from gpupipe.inference.sql.dialect import TITLES

    manifest, goal = model.manifest, model.goal
    executed = "not executed: parsed only; compare some rows with gpupipe predict"
    if comparison is not None:
        executed = f"{comparison.rows} recorded rows differ by at most {comparison.largest:.2g} in {comparison.runtime}"
    return [
        f"{json.dumps(manifest.get('name') or 'model')}: {goal.task} of {', '.join(map(json.dumps, goal.names))}",
        f"gpupipe {manifest['gpupipe']}, model {manifest['manifest_sha256']}",
        f"{TITLES[dialect]}: {executed}",
        *(f"input {json.dumps(each.column.source)}: {each.type}" for each in inputs),
        *(f"not included: {each}" for each in omitted),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
