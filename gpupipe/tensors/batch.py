"""Rows ready for a neural network: numbers, categorical ids, target and weight, and what they mean.

The arrays are of any library: NumPy, CuPy, PyTorch, JAX, TensorFlow. Made by `TensorBatch.of_matrix`, numbers and ids
are two views of one allocation, that of the feature matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpupipe.errors import ConfigError, DataError
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt
from gpupipe.typing import Array

if TYPE_CHECKING:
    import torch

A = TypeVar("A", bound="Array | torch.Tensor")  # arrays of one library

BLOCK_ROWS = 1 << 18  # ids are checked and written in parts: 1 MiB of scratch memory each, whatever the table's size
EXACT_IDS = 1 << 24  # float32 holds every integer below it
ARRAYS = ("features", "ids", "target", "weight")


@dataclass(frozen=True)
class Metadata:
    """What the columns of a `TensorBatch` are.

    Attributes
    ----------
    names : tuple of str
        Of the columns of ``features``.
    id_names : tuple of str
        Of the columns of ``ids``.
    vocabularies : mapping of str to tuple
        Column of ``ids`` to its levels: id 3 is the first of them. Ids 0, 1 and 2 are null, unseen and rare.
    cardinalities : tuple of int
        For each column of ``ids`` how many ids it may hold: each is below it.
    labels : tuple
        Of the classes; the target holds their positions. Empty where the target is a number.
    task : str
        ``"binary"``, ``"multiclass"``, ``"regression"``; ``""`` where it is not known.
    """

    names: tuple[str, ...] = ()
    id_names: tuple[str, ...] = ()
    vocabularies: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cardinalities: tuple[int, ...] = ()
    labels: tuple[Any, ...] = ()
    task: str = ""

    def __repr__(self) -> str:
        task = self.task or "unknown task"
        return (
            f"Metadata({task}, {len(self.names)} columns, {len(self.id_names)} id columns, {len(self.labels)} labels)"
        )


@dataclass(frozen=True, eq=False)
class TensorBatch(Generic[A]):
    """Rows of a table as arrays of one library, on one device.

    It hands its features over by itself: ``torch.from_dlpack(batch)``, and on a device ``cupy.asarray(batch)``.

    Attributes
    ----------
    features : array of float32, shape (n, d)
        The numbers; NaN where one is missing.
    ids : array of int32, shape (n, c), optional
        Categories: 0 null, 1 unseen, 2 rare, 3.. the levels. None where the view has none.
    target : array of shape (n,), optional
        float32 for numbers, int64 class codes for classes.
    weight : array of float32, shape (n,), optional
    metadata : Metadata

    Raises
    ------
    ConfigError
        If the arrays have not the same number of rows.
    """

    features: A
    ids: A | None = None
    target: A | None = None
    weight: A | None = None
    metadata: Metadata = field(default_factory=Metadata)

    def __post_init__(self) -> None:
        rows = {name: array.shape[0] for name in ARRAYS if (array := getattr(self, name)) is not None}
        if len(set(rows.values())) > 1:
            raise ConfigError(
                f"the arrays of a TensorBatch differ in rows: {', '.join(f'{n} has {r}' for n, r in rows.items())}",
                fix="give arrays of the same rows",
            )

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def __repr__(self) -> str:
        arrays = {name: array for name in ARRAYS if (array := getattr(self, name)) is not None}
        shapes = ", ".join(f"{name} {tuple(array.shape)} {array.dtype}" for name, array in arrays.items())
        return f"<TensorBatch of {type(self.features).__module__.partition('.')[0]}: {shapes}>"

    @property
    def nulls(self) -> A:
        """Where a feature is missing: bool, shape (n, d), made anew each time that it is asked for."""
        features: Any = self.features
        is_null: A = features != features  # true of NaN alone, and written so in every library
        return is_null

    def to(self, library: str, copy: bool = False) -> TensorBatch[Any]:
        """Return the batch with its arrays handed to ``"torch"``, ``"jax"``, ``"tensorflow"`` or ``"numpy"``.

        Raises
        ------
        DataError, ConfigError
            As `gpupipe.tensors.handover.hand_over`, of which `copy` is.
        """
        return self.hand_over(library, copy)[0]

    def hand_over(self, library: str, copy: bool = False) -> tuple[TensorBatch[Any], dict[str, Receipt]]:
        """Return the batch handed over and the receipts of its arrays, by their names: ``features``, ``ids``, ..."""
        done = {name: hand_over(array, library, copy) for name in ARRAYS if (array := getattr(self, name)) is not None}
        tensors = {name: tensor for name, (tensor, _) in done.items()}
        return replace(self, **tensors), {name: receipt for name, (_, receipt) in done.items()}

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of the features, as their own library makes it; the protocol's keywords."""
        return _ready(self.features).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where the features are: DLPack's number of the kind of device, and which one."""
        features: Any = self.features  # of a library that has DLPack
        kind, index = features.__dlpack_device__()
        return kind, index

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the features lie on a device; on the host there is no such attribute."""
        interface: dict[str, Any] = _ready(self.features).__cuda_array_interface__
        return interface

    @staticmethod
    def of_matrix(
        X: Array,
        categorical: Mapping[str, int] | None = None,
        *,
        target: Array | None = None,
        weight: Array | None = None,
        metadata: Metadata | None = None,
    ) -> TensorBatch[Array]:
        """Make a batch of a feature matrix whose last columns are ids, in the memory of that matrix.

        The ids are written where they lie, as int32 over float32; the numbers stay. The caller gives the matrix up:
        its last columns mean nothing as float32 from then on.

        Parameters
        ----------
        X : array of float32, shape (n, d + c)
            Of NumPy or CuPy, writable.
        categorical : mapping of str to int
            The names of the last columns, in their order, each with the number of its ids, at most 2**24: what float32
            holds exactly.
        target, weight : arrays of shape (n,), optional
        metadata : Metadata, optional
            Of the other columns; ``id_names`` and ``cardinalities`` are taken from `categorical`.

        Raises
        ------
        DataError
            If a cell of the last columns is no id below its column's number; the matrix is then as it was.
        ConfigError
            If the matrix is not as stated, or has not so many columns.
        """
        sizes = dict(categorical or {})
        d = _numbers(X, sizes)
        for column, (name, size) in enumerate(sizes.items(), start=d):
            _demand_ids(X[:, column], name, size)
        ids: Array = X[:, d:].view("int32")
        for column in range(len(sizes)):
            _write_ids(X[:, d + column], ids[:, column])
        known = replace(metadata or Metadata(), id_names=tuple(sizes), cardinalities=tuple(sizes.values()))
        return TensorBatch(X[:, :d], ids if sizes else None, target, weight, known)


def _ready(array: Any) -> Any:
    """Return the array; on a device CuPy, which hands it over, waits for the kernels that write it."""
    if type(array).__module__.partition(".")[0] == "cupy":
        from gpupipe.backends.gpu.memory import wait_for_kernels

        wait_for_kernels()
    return array


def _numbers(X: Array, sizes: Mapping[str, int]) -> int:
    """Return how many columns are numbers, after a look at what was given."""
    if X.ndim != 2 or X.dtype != "float32" or X.shape[1] < len(sizes):
        wanted = f"a float32 matrix with {len(sizes)} columns of ids at its end"
        raise ConfigError(f"the matrix has dtype {X.dtype} and shape {X.shape}", fix=f"give {wanted}")
    if not getattr(X.flags, "writeable", True):
        raise ConfigError("the matrix is read-only, and its ids are written in place", fix="give a copy of it")
    for name, size in sizes.items():
        if not 0 < size <= EXACT_IDS:
            raise ConfigError(f"column {name!r} has {size:,} ids", fix=f"float32 holds 1 to {EXACT_IDS:,} of them")
    return int(X.shape[1]) - len(sizes)


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, rows, BLOCK_ROWS)]


def _demand_ids(column: Array, name: str, size: int) -> None:
    for rows in _blocks(len(column)):
        cells = column[rows]
        wrong = ~((cells >= 0) & (cells < size) & (cells.round() == cells))  # NaN is among them
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"column {name!r} holds {float(cells[row])}, which is no id below {size}",
                where=f"row {rows.start + row} of the matrix",
                fix="give ids as the view for embeddings makes them, and the number of them",
            )


def _write_ids(column: Array, ids: Array) -> None:
    for rows in _blocks(len(column)):
        ids[rows] = column[rows].astype("int32")  # the right side is whole before the first cell is written
