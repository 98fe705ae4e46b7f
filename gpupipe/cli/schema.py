"""``gpupipe schema``: the JSON Schema of the configuration."""

from __future__ import annotations

import click


@click.command
def command() -> None:
    """Print the JSON Schema of the configuration (draft 2020-12).

    An editor with a YAML language server completes and explains with it: `gpupipe schema > gpupipe.schema.json`, and
    `# yaml-language-server: $schema=gpupipe.schema.json` as the first line of a configuration.
    """
    import json

    from gpupipe.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
