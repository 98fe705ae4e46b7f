"""Reload of the model: a new one is loaded and checked while the old one serves."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic

from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.model_parts.folder import model_folder
from gpupipe.report.text import printable
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.served_model import ServedModel, identify
from gpupipe.serve.settings import ServeSettings
from gpupipe.serve.time_limit import time_limit

MOST_DELAY = 60.0  # seconds

log = logging.getLogger("gpupipe.serve")


class ModelWatch:
    """Watch on the path of the model.

    `current` returns the model in use, and `install` replaces it.
    """

    def __init__(
        self,
        settings: ServeSettings,
        current: Callable[[], ServedModel],
        install: Callable[[ServedModel], None],
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._current = current
        self._install = install
        self._metrics = metrics
        self._requested = asyncio.Event()
        self._seen = current().identity
        self._delay = 0.0  # seconds until the next attempt with a model that could not be read
        self._retry_at = math.inf

    def request(self) -> None:
        """Reload the model now, even if it has not changed."""
        self._requested.set()

    async def run(self) -> None:
        """Reload the model whenever it changes or `request` is called, until cancelled."""
        while True:
            interval = self._settings.poll_seconds or None
            try:
                await asyncio.wait_for(self._requested.wait(), interval)
            except TimeoutError:
                now = identify(self._settings.model)
                if now is None or (now == self._seen and monotonic() < self._retry_at):  # None: it is being replaced
                    continue
            self._requested.clear()
            found = identify(self._settings.model)
            self._delay = self._delay if found == self._seen else 0.0
            self._seen = found
            is_final = await self._reload()
            # Files may still be copied, so a model that cannot be read is tried again.
            self._delay = 0.0 if is_final else min(max(1.0, 2 * self._delay), MOST_DELAY)
            self._retry_at = math.inf if is_final else monotonic() + self._delay

    async def _reload(self) -> bool:
        """Load and install the model; return False if another attempt may succeed."""
        old, settings = self._current(), self._settings
        explains = settings.explain == "start" or old.scorer.has_explanations
        try:
            # In a thread, so that requests are answered in the meantime.
            new = await asyncio.to_thread(load_model, settings, old.name, explains)
            old.refuse_incompatible(new)
            self._install(new)
        except Exception as error:
            is_final = isinstance(error, ConfigError)
            if self._delay and not is_final:
                return False  # counted and logged before
            self._metrics.count_reload(False)
            if isinstance(error, GpupipeError):
                log.error("the new model was refused; version %s continues: %s", old.version, printable(str(error)))
            else:
                log.exception("the new model was refused; version %s continues", old.version)
            return is_final
        self._metrics.count_reload(True)
        log.warning("version %s replaces version %s", new.version, old.version)
        return True


def load_model(settings: ServeSettings, name: str, explains: bool) -> ServedModel:
    """Return the new model, with explanations prepared if `explains`.

    An untrusted one is opened in another process first, as it may end this one. Raise GpupipeError if it is refused.
    """
    tried = None
    if settings.limits is not None:
        from gpupipe.inference.untrusted.process import ModelProcess

        folder = model_folder(Path(settings.model).resolve())
        with closing(ModelProcess(folder, settings.allow_code, settings.limits)) as process:
            process.request({"request": "scorer", "explains": explains}, lambda *reply: None)
            tried = process.sha256
    load = time_limit(settings.operation_seconds)(ServedModel.load)
    new = load(settings.model, name, settings.allow_code, explains)
    if tried not in (None, new.scorer.manifest["manifest_sha256"]):
        raise ArtifactError("the model was replaced while it was loaded", where=settings.model)
    return new
