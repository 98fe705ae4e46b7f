"""Command ``gpupipe schema``."""

from __future__ import annotations

import click


@click.command
def command() -> None:
    """Print the JSON Schema of the configuration (draft 2020-12).

    Editors with a YAML language server use it for completion and documentation. Write it to a file and name the file
    in the first line of the configuration:

    \b
      gpupipe schema > gpupipe.schema.json
      # yaml-language-server: $schema=gpupipe.schema.json
    """
    import json

    from gpupipe.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
