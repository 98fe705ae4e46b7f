"""Command ``gpupipe serve RUN_OR_MODEL``: an HTTP server of a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from gpupipe.cli.options import allow_code_option, limit_option, parse_limits, untrusted_option
from gpupipe.serve.settings import ServeSettings
from gpupipe.units import parse_duration_us, parse_size

DEFAULTS = ServeSettings(model="")


class Amount(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, such as 16MiB or 10s, read by a function of `gpupipe.units`."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of bytes or seconds."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _seconds(text: str, allow_zero: bool = False) -> float:
    return parse_duration_us(text, allow_zero=allow_zero) / 1e6


SIZE, DURATION = Amount("SIZE", parse_size), Amount("DURATION", _seconds)
DURATION_OR_ZERO = Amount("DURATION", partial(_seconds, allow_zero=True))
option = partial(click.option, show_default=True)


@click.command
@click.argument("model", metavar="RUN_OR_MODEL")
@option("--host", default=DEFAULTS.host, help="Address to listen on.")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULTS.port,
    help="Port to listen on. 0: a free port, which is printed.",
)
@option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULTS.workers,
    help="Number of processes. Each has a copy of the model; dead ones are restarted.",
)
@option(
    "--max-batch",
    type=click.IntRange(1),
    metavar="ROWS",
    default=DEFAULTS.max_batch,
    help="Maximum number of rows predicted at once. Waiting requests are predicted together; larger requests in parts.",
)
@option(
    "--batch-wait",
    "batch_wait_seconds",
    type=DURATION_OR_ZERO,
    default="0ms",
    help="Time that a request waits for others to be predicted with it. 0ms: only until the requests that have arrived "
    "are read.",
)
@option("--max-body", "max_body_bytes", type=SIZE, default="16MiB", help="Maximum size of a request body.")
@option("--max-rows", type=click.IntRange(1), default=DEFAULTS.max_rows, help="Maximum number of rows of a request.")
@option(
    "--explain",
    type=click.Choice(["demand", "start", "off"]),
    default=DEFAULTS.explain,
    help="When the explanations of POST /predict?explain=K are prepared: by the first request for one, before the "
    "server is ready, or never.",
)
@option(
    "--max-explain-rows",
    "max_explained_rows",
    type=click.IntRange(1),
    metavar="ROWS",
    default=DEFAULTS.max_explained_rows,
    help="Maximum number of rows of a request for explanations.",
)
@option(
    "--drift",
    type=click.Choice(["on", "off"]),
    default=DEFAULTS.drift,
    help="Compare the predicted rows with the training rows of the model, for GET /drift and the metrics.",
)
@option(
    "--drift-rows",
    type=click.IntRange(1_000, 1_000_000_000),
    metavar="ROWS",
    default=DEFAULTS.drift_rows,
    help="Compare at most the last ROWS predicted rows of all workers, and at least half as many.",
)
@option(
    "--max-waiting",
    type=click.IntRange(1),
    default=DEFAULTS.max_waiting,
    help="Maximum number of requests of a worker that wait for their prediction; further ones get the status 429.",
)
@option(
    "--max-connections",
    type=click.IntRange(1),
    default=DEFAULTS.max_connections,
    help="Maximum number of open connections of a worker; further ones get the status 503.",
)
@option(
    "--read-timeout",
    "read_seconds",
    type=DURATION,
    default="10s",
    help="Time limit for receiving the headers and body of a request.",
)
@option(
    "--request-timeout",
    "request_seconds",
    type=DURATION,
    default="30s",
    help="Time limit for predicting a request after it was received; then its status is 503.",
)
@option(
    "--keep-alive",
    "keep_alive_seconds",
    type=DURATION,
    default="75s",
    help="Time after which an idle connection is closed.",
)
@option(
    "--shutdown-timeout",
    "shutdown_seconds",
    type=DURATION,
    default="30s",
    help="Time limit for finishing requests after SIGTERM or Ctrl-C.",
)
@option(
    "--reload-interval",
    "poll_seconds",
    type=DURATION_OR_ZERO,
    default="1s",
    help="Interval between checks for a new model in RUN_OR_MODEL. 0s: reload on SIGHUP only.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Accept requests for this host name, such as that of a proxy, and predictions that its web pages send. "
    "Repeatable. Default: only the names of this machine if --host is a loopback address, else any name.",
)
@click.option("--name", default="", help="Name of the model in the Open Inference Protocol. Default: that of its run.")
@allow_code_option
@untrusted_option
@limit_option
def command(model: str, untrusted: bool, limits: tuple[str, ...], **options: Any) -> int:
    """Serve predictions of a model over HTTP: of a run directory, a model directory, or a symbolic link to one.

    The address is printed on stdout when the server is ready; open it in a browser for a form and an example request.
    A new model in RUN_OR_MODEL replaces the old one without interruption if it loads and has the same columns and
    outputs. Set the environment variable GPUPIPE_TOKEN to require a bearer token.

    With --untrusted, only worker processes open the model. Each has the limits: of memory, and of the time to open the
    model, to predict a batch, and to explain 32 rows. A worker that ends is replaced.

    \b
    Exit codes:
      2    the address cannot be used, or packages are missing
      5    the model cannot be loaded
      130  stopped by Ctrl-C
      143  stopped by SIGTERM
    """
    from gpupipe.serve.server import configure_log, serve_model

    configure_log()
    allowed = parse_limits(limits, untrusted)
    if allowed is not None:
        from gpupipe.inference.untrusted.limits import UntrustedLimits

        options["limits"] = UntrustedLimits.of(allowed)
    settings = ServeSettings(model=model, **options)

    def announce(url: str) -> None:
        click.echo(url)
        sys.stdout.flush()

    return 128 + serve_model(settings, announce)
