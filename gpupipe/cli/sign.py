"""Command ``gpupipe sign RUN_OR_MODEL --key KEY``."""

from __future__ import annotations

from pathlib import Path

import click

from gpupipe.cli.options import force_option

FILE = click.Path(path_type=Path)


@click.command
@click.argument("model", metavar="RUN_OR_MODEL", type=FILE)
@click.option("--key", metavar="KEY", type=FILE, required=True, help="The private key: an elliptic curve, in PEM.")
@click.option("--certificate", metavar="FILE", type=FILE, help="The certificate of the key; others trust its issuer.")
@click.option("--chain", metavar="FILE", type=FILE, multiple=True, help="A certificate in between. Repeatable.")
@force_option("Sign a signed model again.")
def command(model: Path, key: Path, certificate: Path | None, chain: tuple[Path, ...]) -> None:
    """Sign every file of a model, with its provenance and bill of materials.

    The model directory gets three files: provenance.json, an in-toto statement of what the model was made from;
    bom.json, a CycloneDX ML-BOM; and model.sig, the signature of all files. `--trust` of other commands then refuses
    the model if a file was changed, added or removed. The environment variable GPUPIPE_KEY_PASSWORD has the password of
    the key. There is no --untrusted: sign models that you vouch for.
    """
    from gpupipe.artifact.manifest import BOM, PROVENANCE, SIGNATURE
    from gpupipe.pipeline.provenance.signer import sign_model

    folder = sign_model(model, key, certificate, chain)
    click.echo("\n".join(str(folder / name) for name in (PROVENANCE, BOM, SIGNATURE)))
