"""Promotion of a challenger to the current model of a folder of generations, and the return to an earlier one.

One rename replaces the pointer, after the new generation is complete and verified. A process that is killed leaves the
old model current, or the new one. `gpupipe.model_parts.generations` has the layout of the folder.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpupipe.artifact import ArtifactReader
from gpupipe.errors import ArtifactError, ConfigError, QualityError, did_you_mean
from gpupipe.files.author import account_name
from gpupipe.files.drafts import locked, sweep
from gpupipe.files.file import write_text
from gpupipe.files.rename import sync
from gpupipe.inference.copy import copy_model
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.scorer.outputs import incompatibilities
from gpupipe.model_parts import generations as layout
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.generations import Pointer
from gpupipe.model_parts.lineage import Generation, read_lineage
from gpupipe.names import enumerate_names

MOST_REASONS = 8  # in a message

log = logging.getLogger("gpupipe")


@dataclass(frozen=True)
class Promotion:
    """Result of a promotion or rollback.

    `current` is the generation that is current now. `before` is the one that was, None if there was none; it equals
    `current` if nothing has changed. `notes` are for the user.
    """

    current: str
    before: str | None
    notes: tuple[str, ...] = ()


def promote(
    folder: Path, challenger: Path, device: str = "auto", *, allow_code: bool = False, force: bool = False
) -> Promotion:
    """Copy a model into a folder of generations, verify the copy, and make it the current one.

    The first promotion creates `folder`. `challenger` is a run directory, a model directory, or another folder of
    generations. A model that is a generation already is not copied again. For `device` and `allow_code` see
    `gpupipe.inference.copy.copy_model`. If `force`, neither the verdict on the challenger nor its inputs and outputs
    are checked.

    Raise ConfigError if `folder` has other files, or clients of the current model cannot use the challenger;
    QualityError if the verdict in its lineage is ``"keep"`` or ``"refuse"``; ArtifactError if the challenger, the
    current model or the pointer is corrupt, or the copy fails verification.
    """
    source = model_folder(challenger)  # once: it may be the current generation of another folder
    model, lineage = load_model(source, "cpu", allow_code=allow_code), read_lineage(source)
    if not force and lineage and lineage[-1].verdict in ("keep", "refuse"):
        reasons = [f"  {reason}" for reason in lineage[-1].reasons[:MOST_REASONS]]
        what = "\n".join([f"the verdict on the challenger is {lineage[-1].verdict!r}:", *reasons])
        raise QualityError(what, where=str(challenger), fix="keep the current model, or promote with --force")
    _require_place(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _changing(folder):
        pointer = _read(folder)
        numbers, sha256 = layout.generation_numbers(folder), model.manifest["manifest_sha256"]
        name = next((each for each in numbers if _is_copy(layout.generation_path(folder, each), sha256)), "")
        if pointer is not None and name == pointer.current:
            return Promotion(name, name)
        if pointer is not None and not force:
            _require_compatible(folder, model, challenger, allow_code)
        if not name:
            name = f"{max(numbers.values(), default=0) + 1:04d}-{sha256[:12]}"
            copy_model(source, path := layout.generation_path(folder, name), device, allow_code)
            if not _is_copy(path, sha256):  # what was checked is not what was copied
                fix = "promote it again once it is complete"
                raise ArtifactError("the challenger was replaced while it was copied", where=str(source), fix=fix)
        earlier = () if pointer is None else (pointer.current, *pointer.earlier)
        return _switch(folder, "promote", pointer, Pointer(name, earlier, {}), _notes(lineage, pointer))


def rollback(folder: Path, to: str | None = None) -> Promotion:
    """Make the generation before the current one, or the one with the name or number `to`, the current one.

    Repeated calls go back further, in the order in which the generations were current; one that was rolled back is
    passed over. With `to`, a corrupt pointer is replaced. Raise ConfigError if the folder does not exist, or does not
    have the generation, or one before; ArtifactError if the generation or the pointer is corrupt.
    """
    numbers = layout.generation_numbers(folder)
    if not numbers:
        fix = f"make one with the first model: gpupipe promote {folder} RUN_OR_MODEL"
        raise ConfigError("expected a folder of generations; found none", where=str(folder), fix=fix)
    with _changing(folder):
        try:
            pointer = _read(folder)
        except ArtifactError:
            if to is None:
                raise
            pointer = None
        earlier = () if pointer is None else pointer.earlier
        if to is not None:
            name = _named(folder, numbers, to)
        elif earlier:
            name = earlier[0]
        else:
            fix = f"choose one of `gpupipe history {folder}` with --to ID"
            raise ConfigError("no earlier generation to return to", where=str(folder), fix=fix)
        if pointer is not None and name == pointer.current:
            return Promotion(name, name)
        try:
            ArtifactReader(layout.generation_path(folder, name))  # before anything changes
        except ArtifactError as error:
            error.advise("choose another generation with --to ID")
            raise
        if name in earlier:
            earlier = earlier[earlier.index(name) + 1 :]
        elif pointer is not None:
            earlier = (pointer.current, *earlier)
        return _switch(folder, "rollback", pointer, Pointer(name, earlier, {}))


def _require_place(folder: Path) -> None:
    """Raise ConfigError if a folder cannot be one of generations."""
    fix = "name a new or empty folder, or one that `gpupipe promote` has made"
    if folder.exists() and not folder.is_dir():
        raise ConfigError("expected a folder of generations; found a file", where=str(folder), fix=fix)
    if folder.is_dir() and not os.path.lexists(folder / layout.POINTER):
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if found := sorted(names - {layout.GENERATIONS}):
            what = f"expected a folder of generations; found {enumerate_names(found, 3)} and no {layout.POINTER}"
            raise ConfigError(what, where=str(folder), fix=fix)


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    """Lock a folder of generations, and remove what killed processes have left."""
    try:
        with locked(folder):
            for draft in folder.glob(".draft-*"):
                draft.unlink(missing_ok=True)
            for draft in folder.glob(f"{layout.GENERATIONS}/.*.tmp-*"):
                sweep(draft)
            yield
    except PermissionError as error:
        fix = "use gpupipe as the owner of the folder"
        raise ConfigError(f"the folder cannot be changed: {error.strerror}", where=str(folder), fix=fix) from error


def _require_compatible(folder: Path, new: Model, challenger: Path, allow_code: bool) -> None:
    """Raise ConfigError if clients of the current model of a folder cannot use `new`."""
    try:
        old = load_model(layout.current_generation(folder), "cpu", allow_code=allow_code)
    except ArtifactError as error:
        error.advise("add --force to replace it without comparing inputs and outputs")
        raise
    if problems := incompatibilities(old.scorer("numpy"), new.scorer("numpy"), "the current model"):
        raise ConfigError(
            "the challenger is not compatible with the current model:",
            where=str(challenger),
            problems=problems,
            fix="add --force to promote it anyway, and restart servers, which refuse it too",
        )


def _is_copy(path: Path, sha256: str) -> bool:
    """Return whether a generation is the model with this hash, undamaged."""
    try:
        return path.name.endswith(sha256[:12]) and bool(ArtifactReader(path).manifest["manifest_sha256"] == sha256)
    except ArtifactError:
        return False


def _notes(lineage: tuple[Generation, ...], pointer: Pointer | None) -> tuple[str, ...]:
    """Return a note if the challenger was compared with another model than the current one."""
    if len(lineage) < 2 or pointer is None or pointer.current.endswith(lineage[-2].manifest_sha256[:12]):
        return ()
    return (f"the challenger was derived from model {lineage[-2].manifest_sha256[:12]}, not from the one it replaces",)


def _named(folder: Path, numbers: dict[str, int], to: str) -> str:
    """Return the generation with a name or number; raise ConfigError if there is none."""
    for name, number in numbers.items():
        if to == name or (to.isdecimal() and int(to) == number):
            return name
    fix = did_you_mean(to, numbers) or f"the generations are {enumerate_names(numbers)}"
    raise ConfigError(f"no generation {to!r:.80}", where=str(folder), fix=fix)


def _switch(folder: Path, action: str, old: Pointer | None, new: Pointer, notes: tuple[str, ...] = ()) -> Promotion:
    """Replace the pointer of a folder, and log the change."""
    before = None if old is None else old.current
    time = datetime.now(UTC).isoformat(timespec="microseconds")
    switch = {"time": time, "action": action, "from": before, "to": new.current, "user": account_name()}
    earlier = tuple(dict.fromkeys(name for name in new.earlier if name != new.current))
    text = json.dumps(asdict(Pointer(new.current, earlier, switch)), indent=1)
    write_text(folder / layout.POINTER, f"{text}\n", is_private=False)
    sync(folder)
    _append(folder, switch)
    return Promotion(new.current, before, notes)


def _read(folder: Path) -> Pointer | None:
    """Return the pointer of a folder, after adding its change to the log if a killed process has not."""
    pointer = layout.read_pointer(folder)
    if pointer is not None and pointer.switch not in layout.read_log(folder)[0]:
        _append(folder, pointer.switch)
    return pointer


def _append(folder: Path, switch: dict[str, str | None]) -> None:
    """Append a change to the log; if that fails, log a warning, since the pointer keeps it for the next time."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(folder / layout.LOG, flags, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * is_torn + json.dumps(switch).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        log.warning("%s is not written: %s; the next promotion adds the line", layout.LOG, error.strerror)
