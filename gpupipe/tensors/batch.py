"""Rows ready for a neural network: numbers, categorical ids, bags of ids, target, weight and their metadata.

The arrays belong to one library: NumPy, CuPy, PyTorch, JAX or TensorFlow. `TensorBatch.of_matrix` makes numbers and ids
two views of one allocation, that of the feature matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpupipe.errors import ConfigError, DataError
from gpupipe.tensors.bags import IdBags
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt
from gpupipe.typing import Array

if TYPE_CHECKING:
    import torch

A = TypeVar("A", bound="Array | torch.Tensor")  # arrays of one library

BLOCK_ROWS = 1 << 18  # ids are checked and written in blocks that need 1 MiB of scratch memory each
EXACT_IDS = 1 << 24  # float32 represents every integer below it exactly
ARRAYS = ("features", "ids", "target", "weight")


@dataclass(frozen=True)
class Metadata:
    """Names, vocabularies and class labels of a `TensorBatch`."""

    names: tuple[str, ...] = ()  # names of the columns of ``features``
    id_names: tuple[str, ...] = ()  # names of the columns of ``ids``
    # Column of ``ids`` or ``bags`` to its levels: id 3 is the first of them. Ids 0, 1 and 2 are null, unseen and rare.
    vocabularies: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cardinalities: tuple[int, ...] = ()  # number of ids of each column of ``ids``: an id is less than that
    # Class labels; the target holds their positions. Empty for a numeric target. Of several targets with classes, the
    # labels of each.
    labels: tuple[Any, ...] = ()
    task: str = ""  # ``"binary"``, ``"multiclass"``, ``"regression"``, ``"multioutput"``; ``""`` if unknown
    targets: tuple[str, ...] = ()  # names of several targets, in the order of their columns
    bag_cardinalities: Mapping[str, int] = field(default_factory=dict)  # number of ids of each entry of ``bags``

    def __repr__(self) -> str:
        task = self.task or "unknown task"
        return (
            f"Metadata({task}, {len(self.names)} columns, {len(self.id_names)} id columns, {len(self.labels)} labels)"
        )


@dataclass(frozen=True, eq=False)
class TensorBatch(Generic[A]):
    """Rows of a table as arrays of one library, on one device.

    A batch is itself an array to libraries that read DLPack: ``torch.from_dlpack(batch)`` returns its features, as does
    ``cupy.asarray(batch)`` on a device.

    Attributes
    ----------
    features : array of float32, shape (n, d)
        Numeric columns; a missing value is NaN.
    ids : array of int32, shape (n, c), optional
        Categorical columns: 0 null, 1 unseen, 2 rare, 3 and above the levels. None without categorical columns.
    target : array of shape (n,), or (n, k) for several targets, optional
        float32 for regression, int64 class codes for classification.
    weight : array of float32, shape (n,), optional
        Weight of each row.
    metadata : Metadata
        Names of the columns, vocabularies and class labels.
    bags : mapping of str to IdBags
        Lists of the op ``bag_ids``, as ``(ids, offsets)``: int32, shapes (n_items,) and (n + 1,). The ids of row i are
        ``ids[offsets[i] : offsets[i + 1]]``.

    Raises
    ------
    ConfigError
        If the arrays differ in their number of rows.

    See Also
    --------
    Batches : Shuffled mini-batches of a batch.

    Examples
    --------
    >>> import numpy as np
    >>> from gpupipe import TensorBatch
    >>> batch = TensorBatch(np.ones((4, 2), "float32"), target=np.array([0, 1, 1, 0]))
    >>> batch
    <TensorBatch of numpy: features (4, 2) float32, target (4,) int64>
    >>> batch.to("torch").target
    tensor([0, 1, 1, 0])
    """

    features: A
    ids: A | None = None
    target: A | None = None
    weight: A | None = None
    metadata: Metadata = field(default_factory=Metadata)
    bags: Mapping[str, IdBags[A]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = {name: array.shape[0] for name in ARRAYS if (array := getattr(self, name)) is not None}
        rows |= {f"bags[{name!r}]": bags.offsets.shape[0] - 1 for name, bags in self.bags.items()}
        if len(set(rows.values())) > 1:
            raise ConfigError(
                f"the arrays of a TensorBatch differ in length: {', '.join(f'{n} has {r}' for n, r in rows.items())}",
                fix="pass arrays with the same number of rows",
            )

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def __repr__(self) -> str:
        arrays = {name: array for name in ARRAYS if (array := getattr(self, name)) is not None}
        arrays |= {f"bags[{name!r}]": bags.ids for name, bags in self.bags.items()}
        shapes = ", ".join(f"{name} {tuple(array.shape)} {array.dtype}" for name, array in arrays.items())
        return f"<TensorBatch of {type(self.features).__module__.partition('.')[0]}: {shapes}>"

    @property
    def nulls(self) -> A:
        """Mask of missing features: bool, shape (n, d), computed at each access."""
        features: Any = self.features
        is_null: A = features != features  # true for NaN only, in every library
        return is_null

    def to(self, library: str, copy: bool = False) -> TensorBatch[Any]:
        """Return a batch with the same rows as arrays of another library.

        Parameters
        ----------
        library : {"torch", "jax", "tensorflow", "numpy"}
        copy : bool
            False: the arrays share their memory with this batch, or DataError is raised. True: each array is copied
            once.

        Raises
        ------
        DataError
            If an array cannot be handed over without a copy (or with one); the message gives the reason.
        ConfigError
            If the library is unknown or not installed.
        """
        return self.hand_over(library, copy)[0]

    def hand_over(self, library: str, copy: bool = False) -> tuple[TensorBatch[Any], dict[str, Receipt]]:
        """Return `to` and the receipts of its arrays, by name.

        The names are ``features``, ``ids``, ``target``, ``weight``, and of bags ``tags.ids`` and ``tags.offsets``.
        """
        done = {name: hand_over(array, library, copy) for name in ARRAYS if (array := getattr(self, name)) is not None}
        tensors: dict[str, Any] = {name: tensor for name, (tensor, _) in done.items()}
        receipts = {name: receipt for name, (_, receipt) in done.items()}
        tensors["bags"] = {}
        for name, bags in self.bags.items():
            handed = bags.map(lambda array: hand_over(array, library, copy))
            tensors["bags"][name] = handed.map(lambda pair: pair[0])
            receipts |= {f"{name}.ids": handed.ids[1], f"{name}.offsets": handed.offsets[1]}
        return replace(self, **tensors), receipts

    def __dlpack__(self, **options: Any) -> Any:
        """Return the DLPack capsule of the features; `options` are the keywords of the protocol."""
        return _ready(self.features).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type of the features, and the device index."""
        features: Any = self.features  # Any: type checkers do not know that every library has DLPack
        kind, index = features.__dlpack_device__()
        return kind, index

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA array interface of the features; AttributeError on the host."""
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
        """Return a batch over the memory of a feature matrix whose last columns are ids.

        The ids are converted in place, from float32 to int32; the numbers stay. Do not use `X` afterwards: its last
        columns are no longer valid float32.

        Parameters
        ----------
        X : array of float32, shape (n, d + c)
            A writable NumPy or CuPy matrix.
        categorical : mapping of str to int
            Names of the last c columns, in order, and the number of ids of each: at most 2**24, the limit up to which
            float32 is exact.
        target : array of shape (n,) or (n, k), optional
        weight : array of shape (n,), optional
        metadata : Metadata, optional
            Metadata of the other columns; ``id_names`` and ``cardinalities`` are taken from `categorical`.

        Raises
        ------
        DataError
            If a cell of the last columns is not an id in the range of its column; the matrix is then unchanged.
        ConfigError
            If the matrix is not a writable float32 matrix, or has fewer columns than `categorical`.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[0.5, 3.0], [1.5, 0.0]], "float32", order="F")
        >>> batch = TensorBatch.of_matrix(X, {"city": 4})
        >>> batch.ids
        array([[3],
               [0]], dtype=int32)
        >>> batch.metadata.id_names
        ('city',)
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
    """Return the array; on a device, make CuPy's stream wait for the kernels that write it."""
    if type(array).__module__.partition(".")[0] == "cupy":
        from gpupipe.backends.gpu.memory import wait_for_kernels

        wait_for_kernels()
    return array


def _numbers(X: Array, sizes: Mapping[str, int]) -> int:
    """Return the number of numeric columns; raise ConfigError if the matrix or the sizes are invalid."""
    if X.ndim != 2 or X.dtype != "float32" or X.shape[1] < len(sizes):
        expected = f"a float32 matrix whose last {len(sizes)} columns are ids"
        raise ConfigError(
            f"expected {expected}; got dtype {X.dtype} and shape {X.shape}", fix="convert it: X.astype('float32')"
        )
    if not getattr(X.flags, "writeable", True):
        raise ConfigError("the matrix is read-only, but its ids are converted in place", fix="pass a copy: X.copy()")
    for name, size in sizes.items():
        if not 0 < size <= EXACT_IDS:
            raise ConfigError(
                f"expected 1 to {EXACT_IDS:,} ids in column {name!r}; got {size:,}",
                fix="hash the column to fewer ids: hash_bucket",
            )
    return int(X.shape[1]) - len(sizes)


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, rows, BLOCK_ROWS)]


def _demand_ids(column: Array, name: str, size: int) -> None:
    for rows in _blocks(len(column)):
        cells = column[rows]
        wrong = ~((cells >= 0) & (cells < size) & (cells.round() == cells))  # also true for NaN
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"column {name!r} contains {float(cells[row])}; expected an integer id in [0, {size})",
                where=f"row {rows.start + row} of the matrix",
                fix="pass a matrix of the embedding view, and the number of ids of each column",
            )


def _write_ids(column: Array, ids: Array) -> None:
    for rows in _blocks(len(column)):
        ids[rows] = column[rows].astype("int32")  # converted completely before the first cell is written
