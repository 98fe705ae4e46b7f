"""Command ``gpupipe serve RUN_OR_MODEL``: an HTTP server of a model."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpupipe.cli.options import allow_code_option
from gpupipe.serve.settings import ServeSettings

DEFAULTS = ServeSettings(model="")


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes, such as 16MiB."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        from gpupipe.units import parse_size

        try:
            return value if isinstance(value, int) else parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time span, such as 10s."""

    name = "DURATION"

    def __init__(self, allow_zero: bool = False) -> None:
        self._allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of seconds."""
        from gpupipe.units import parse_duration_us

        try:
            return value if isinstance(value, float) else parse_duration_us(value, allow_zero=self._allow_zero) / 1e6
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command
@click.argument("model", metavar="RUN_OR_MODEL")
@click.option("--host", default=DEFAULTS.host, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULTS.port,
    show_default=True,
    help="Port to listen on. 0: a free port, which is printed.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULTS.workers,
    show_default=True,
    help="Number of processes. Each has a copy of the model; dead ones are restarted.",
)
@click.option(
    "--max-batch",
    type=click.IntRange(1),
    metavar="ROWS",
    default=DEFAULTS.max_batch,
    show_default=True,
    help="Maximum number of rows predicted at once. Waiting requests are predicted together; larger requests in parts.",
)
@click.option(
    "--batch-wait",
    "batch_wait_seconds",
    type=Duration(allow_zero=True),
    default="0ms",
    show_default=True,
    help="Time that a request waits for others to be predicted with it. 0ms: only until the requests that have arrived "
    "are read.",
)
@click.option(
    "--max-body",
    "max_body_bytes",
    type=Size(),
    default="16MiB",
    show_default=True,
    help="Maximum size of a request body.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=DEFAULTS.max_rows,
    show_default=True,
    help="Maximum number of rows of a request.",
)
@click.option(
    "--explain",
    type=click.Choice(["demand", "start", "off"]),
    default=DEFAULTS.explain,
    show_default=True,
    help="When the explanations of POST /predict?explain=K are prepared: by the first request for one, before the "
    "server is ready, or never.",
)
@click.option(
    "--max-explain-rows",
    "max_explained_rows",
    type=click.IntRange(1),
    metavar="ROWS",
    default=DEFAULTS.max_explained_rows,
    show_default=True,
    help="Maximum number of rows of a request for explanations.",
)
@click.option(
    "--drift",
    type=click.Choice(["on", "off"]),
    default=DEFAULTS.drift,
    show_default=True,
    help="Compare the predicted rows with the training rows of the model, for GET /drift and the metrics.",
)
@click.option(
    "--drift-rows",
    type=click.IntRange(1_000, 1_000_000_000),
    metavar="ROWS",
    default=DEFAULTS.drift_rows,
    show_default=True,
    help="Compare at most the last ROWS predicted rows of all workers, and at least half as many.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(1),
    default=DEFAULTS.max_waiting,
    show_default=True,
    help="Maximum number of requests of a worker that wait for their prediction; further ones get the status 429.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=DEFAULTS.max_connections,
    show_default=True,
    help="Maximum number of open connections of a worker; further ones get the status 503.",
)
@click.option(
    "--read-timeout",
    "read_seconds",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Time limit for receiving the headers and body of a request.",
)
@click.option(
    "--request-timeout",
    "request_seconds",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time limit for predicting a request after it was received; then its status is 503.",
)
@click.option(
    "--keep-alive",
    "keep_alive_seconds",
    type=Duration(),
    default="75s",
    show_default=True,
    help="Time after which an idle connection is closed.",
)
@click.option(
    "--shutdown-timeout",
    "shutdown_seconds",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time limit for finishing requests after SIGTERM or Ctrl-C.",
)
@click.option(
    "--reload-interval",
    "poll_seconds",
    type=Duration(allow_zero=True),
    default="1s",
    show_default=True,
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
def command(model: str, **options: Any) -> int:
    """Serve predictions of a model over HTTP: of a run directory, a model directory, or a symbolic link to one.

    The address is printed on stdout when the server is ready; open it in a browser for a form and an example request.
    A new model in RUN_OR_MODEL replaces the old one without interruption if it loads and has the same columns and
    outputs. Set the environment variable GPUPIPE_TOKEN to require a bearer token.

    \b
    Exit codes:
      2    the address cannot be used, or packages are missing
      5    the model cannot be loaded
      130  stopped by Ctrl-C
      143  stopped by SIGTERM
    """
    from gpupipe.serve.server import configure_log, serve_model

    configure_log()
    settings = ServeSettings(model=model, **options)

    def announce(url: str) -> None:
        click.echo(url)
        sys.stdout.flush()

    return 128 + serve_model(settings, announce)
