"""A table in, a file of predictions out."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from gpupipe.errors import ConfigError
from gpupipe.pipeline.model import load_model

ENDINGS = (".csv", ".parquet")


def score(
    model: str | Path,
    data: str,
    output: Path,
    device: str = "auto",
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Write the predictions of `data` to `output`, and return how many there are.

    Parameters
    ----------
    model : str or Path
        A run directory or a model directory.
    data : str
        File, glob, folder or URL.
    output : Path
        ``.csv`` or ``.parquet``; written under another name and renamed, so it is there complete or not at all.
    device : {"auto", "cpu", "gpu"}
    tables : mapping of str to str, optional
        The further tables that features are made of: name to file, glob, folder or URL.
    as_of : str, optional
        An ISO date or time in place of the cut-off dates of the training.
    allow_code : bool
        Whether users' kernels that the model holds may run.
    say : callable
        Told what is to be known of the work: that memory was short, and rows were split.

    Raises
    ------
    ConfigError
        If `output` has another ending, or its folder cannot be written to.
    GpupipeError
        As `load_model` and `Model.predict`.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if output.suffix not in ENDINGS:
        raise ConfigError(
            f"cannot write {output.suffix or 'a file without an ending'}", fix=f"end it {' or '.join(ENDINGS)}"
        )
    if not output.parent.is_dir():
        raise ConfigError("the folder does not exist", where=str(output.parent), fix="make it first")
    loaded = load_model(model, device, allow_code=allow_code)
    table = loaded.predict_table(data, tables, as_of)
    for remark in loaded.backend.take_remarks():
        say(remark)
    hidden = output.with_name(f".{output.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, hidden)
        hidden.replace(output)
    finally:
        hidden.unlink(missing_ok=True)
    return int(table.num_rows)
