"""``gpupipe predict RUN_OR_MODEL INPUT -o FILE``: batch scoring; with ``--cluster``, into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click


@click.command
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="[INPUT]", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A .csv or .parquet file; with --cluster, a new folder of Parquet files.",
)
@click.option(
    "--table", "tables", metavar="NAME=FILE", multiple=True, help="A further table that the features are made of."
)
@click.option("--as-of", metavar="DATE", help="What is known now, in place of the cut-off dates of the training.")
@click.option("--device", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True)
@click.option(
    "--cluster", metavar="local|ADDRESS|FILE", help="Workers that share the rows: started here, or a scheduler's."
)
@click.option("--allow-code", is_flag=True, help="Let the Python code run that the model holds: users' kernels.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    data: str | None,
    output: Path,
    tables: tuple[str, ...],
    as_of: str | None,
    device: Literal["auto", "cpu", "gpu"],
    cluster: str | None,
    allow_code: bool,
    quiet: bool,
) -> None:
    """Score INPUT (a file, glob, folder or URL) with the model of a run directory, or a model directory.

    One row out for each row in, in the same order: the prediction, and the probability of each class. The workers of a
    cluster must reach INPUT and the output folder under the same paths.

    Without INPUT, every key with an event before --as-of is scored; for models whose rows were made of events.
    """
    from gpupipe.config.cluster import settings_of
    from gpupipe.pipeline.scoring import score, score_on_cluster

    def say(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    further = dict(_named(table) for table in tables)
    if cluster is not None and data is None:
        raise click.UsageError("--cluster needs INPUT: a table of the rows to score")
    if cluster is None or data is None:
        n_rows = score(model, data, output, device, further, as_of, allow_code, say)
    else:
        workers = settings_of(cluster)
        n_rows = score_on_cluster(model, data, output, workers, device, further, as_of, allow_code, say)
    say(f"{n_rows:,} rows scored to {output}")


def _named(table: str) -> tuple[str, str]:
    name, equals, path = table.partition("=")
    if not (name and equals and path):
        raise click.BadParameter(f"{table!r} is not NAME=FILE", param_hint="--table")
    return name, path
