"""Models that kill the process that scores with them; workers can import them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.inference.scoring.cluster import _open

WITNESS = "GPUPIPE_TEST_WITNESS"  # a file that exists once a process was killed; "": kill every process


class Dying:
    """A model whose process is killed while it writes a file next to the first part in `folder`, half of it written."""

    def __init__(self, model: Any) -> None:
        self.model, self.backend = model, model.backend

    @property
    def last_prediction_report(self) -> Any:
        return self.model.last_prediction_report

    def predict_table(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None, *, explain: int = 0
    ) -> pa.Table:
        witness = os.environ[WITNESS]
        if not (witness and Path(witness).exists()):
            if witness:
                Path(witness).touch()
            (folder,) = Path(os.environ["GPUPIPE_TEST_OUTPUT"]).glob(".*.tmp-*/new")
            (folder / ".part-00000.parquet.tmp-1-0123abcd").write_bytes(b"PAR1")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.model.predict_table(data, tables, as_of)


def dying(folder: Path, backend: Backend, **options: Any) -> Dying:
    return Dying(_open(folder, backend, **options))
