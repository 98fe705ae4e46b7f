"""The ``monitor:`` section: sampling of the hardware during a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupipe.settings import Seconds, Settings


class Monitor(Settings):
    """Samples of processor, memory, disk and GPUs, in timeline.json, the report and the console."""

    period: Annotated[Seconds, Field(ge=0.1)] | None = Field(
        default=1.0,
        description="Time between two samples: seconds, at least 0.1, or text such as `5s`. It doubles whenever there "
        "are 512 of them. Null: no samples.",
    )
