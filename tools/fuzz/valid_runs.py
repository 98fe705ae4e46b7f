"""Valid runs and a cache, created once for all cases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from tools.fuzz.damage.caches import CONFIG
from tools.fuzz.kinds import MODELS, run_config
from tools.fuzz.tables import LEARNED, TARGET, written


def make_runs(folder: Path, main: Callable[[list[str]], int]) -> None:
    """Run each of `MODELS`, write a cache, and call every command once.

    Everything runs in this process, so that its children inherit the loaded libraries, and on one thread, because
    threads do not survive a fork.
    """
    (folder / "t.parquet").write_bytes(written("parquet")["snappy.parquet"])
    for label, model in MODELS.items():
        (folder / f"{label}.yaml").write_text(run_config(f"path: t.parquet, {LEARNED}", model))
    (folder / "cached.yaml").write_text(CONFIG)
    commands = [
        *(["run", f"{label}.yaml", "--output", label, "--quiet"] for label in [*MODELS, "cached"]),
        ["verify", "linear"],
        ["predict", "linear", "t.parquet", "-o", "p.csv", "--quiet"],
        ["plan", "linear.yaml"],
        ["init", "t.parquet", "--target", TARGET, "-o", "made.yaml"],
    ]
    with chdir(folder):
        for args in commands:
            if code := main(args):
                raise RuntimeError(
                    f"expected valid inputs to be accepted: gpupipe {' '.join(args)} ended with exit code {code}"
                )
