"""Command ``gpupipe schema``."""

from __future__ import annotations

from pathlib import Path

import click

from gpupipe.cli.options import emit, output_file_option
from gpupipe.errors import ConfigError


@click.command
@output_file_option("Write the schema to this file instead of printing it.")
def command(output: Path | None) -> None:
    """Print the JSON Schema of the configuration (draft 2020-12).

    Editors with a YAML language server use it for completion and documentation. Write it to a file and name the file
    in the first line of the configuration:

    \b
      gpupipe schema -o gpupipe.schema.json
      # yaml-language-server: $schema=gpupipe.schema.json
    """
    from gpupipe.config import json_schema
    from gpupipe.report.text import printable

    broken: list[ConfigError] = []
    emit(json_schema(broken), output is None, output, lambda: None)
    for error in broken:
        click.echo(printable(f"warning: not in the schema: {error.what}; {error.fix}"), err=True)
