"""Settings of the neural models ``mlp``, ``tabm`` and ``ft_transformer``, without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpupipe.models.base import (
    MODELS,
    ClassWeight,
    Invariance,
    ModelSettings,
    NonNegative,
    Positive,
    PositiveInt,
    Share,
)
from gpupipe.models.neural.architecture import Activation, Architecture, Kind, NumberEncoding, Parametrization
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Rate = Annotated[float, Field(ge=0, lt=1)]
LEAST_BATCH = 64
MOST_BATCH = 4096
STEPS_PER_EPOCH = 64
ROWS_PER_BIN = 32  # with fewer rows per bin, a network overfits

# AdamW at a constant rate, stopped after 16 epochs without a better loss on a fifth of the rows: the protocol of
# Gorishniy et al., Revisiting Deep Learning Models for Tabular Data (NeurIPS 2021, https://arxiv.org/abs/2106.11959),
# with the 256 epochs of RealMLP-TD as a limit.
_STOP: dict[str, Any] = {"epochs": 256, "patience": 16, "schedule": "constant", "validation_fraction": 0.2}
_REAL_MLP: dict[str, Any] = {
    "epochs": 64, "patience": None, "schedule": "coslog4", "validation_fraction": 0.2,
    "learning_rate": 0.04, "weight_decay": 2e-2, "gradient_clip": None, "parametrization": "ntk", "activation": "selu",
    "number_encoding": "periodic", "embedding_size": 8, "width": 256, "depth": 3, "dropout": 0.15,
}  # fmt: skip
_TABM: dict[str, Any] = {
    **_STOP, "members": 32, "width": 256, "depth": 2, "dropout": 0.1, "learning_rate": 2e-3, "weight_decay": 3e-4,
}  # fmt: skip


class NeuralSettings(ModelSettings):
    """Settings of all networks: embedding of numbers and categories, and training.

    The optimizer is AdamW, on batches shuffled in each epoch. After each epoch the loss on held-out training rows is
    measured. Then the network is trained again on all rows, for the number of epochs that was best.
    """

    tasks = SUPERVISED
    view = "embedding"
    kind: ClassVar[Kind]

    n_bins: PositiveInt = Field(
        32,
        description="Maximum number of bins per numeric column in its piecewise-linear encoding; fewer for less than "
        "32 training rows per bin.",
    )
    batch_size: Literal["auto"] | PositiveInt = Field(
        "auto",
        description="Rows per training step, of all processes together. auto: a power of 2 from 256 to 4096, for "
        "about 64 steps per epoch.",
    )
    epochs: PositiveInt = Field(30, description="Maximum number of passes over the training rows.")
    learning_rate: Positive = Field(1e-3, description="Highest learning rate.")
    weight_decay: NonNegative = Field(
        1e-4, description="Weight decay of AdamW on weight matrices; biases, norms and embeddings have none."
    )
    schedule: Literal["cosine", "constant", "coslog4"] = Field(
        "cosine",
        description="Learning rate after the warm-up. cosine: falls to 0 at the last epoch. constant: stays. coslog4: "
        "four cosine cycles without warm-up, each twice as long as the one before. Within a time limit, the schedule "
        "ends with the last epoch that fits.",
    )
    warmup: Rate = Field(0.05, description="Fraction of all steps in which the learning rate rises from 0.")
    patience: PositiveInt | None = Field(
        6,
        description="Number of epochs without a better loss on held-out rows after which training stops. null: never "
        "before the last epoch.",
    )
    validation_fraction: Share = Field(
        0.15,
        description="Fraction of the training rows held out to select the best epoch: other groups, the latest rows, "
        "or drawn at random, as split says.",
    )
    gradient_clip: Positive | None = Field(1.0, description="Maximum norm of the gradient of a step. null: no limit.")
    precision: Literal["auto", "float32", "bf16", "fp16"] = Field(
        "auto",
        description="Number format of training. auto: bfloat16 on a GPU that supports it, else float16 on a GPU; "
        "float32 on the CPU. Predictions are always computed in float32.",
    )
    compile: bool = Field(
        False, description="Compile the network with torch.compile: slower to start, faster per step."
    )
    class_weight: ClassWeight = None

    def target_invariance(self, task: Task) -> Invariance:
        return "affine"

    @property
    def learns_jointly(self) -> bool:
        return True

    def estimator_name(self, task: Task) -> str:
        return "Network"

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        return "torch", "gpupipe.models.neural.fit"

    def architecture(self, n_numbers: int, cardinalities: tuple[int, ...], n_outputs: int, n_rows: int) -> Architecture:
        """Return the architecture for the given columns, outputs and rows; few rows reduce the number of bins."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name in Architecture.__annotations__}
        own["n_bins"] = max(1, min(self.n_bins, n_rows // ROWS_PER_BIN))
        return Architecture(self.kind, n_numbers, cardinalities, n_outputs, **own)

    def rows_per_batch(self, n_rows: int) -> int:
        """Return the batch size for `n_rows` training rows."""
        if self.batch_size != "auto":
            return self.batch_size
        power = 1 << max(0, (n_rows // STEPS_PER_EPOCH).bit_length() - 1)
        return min(MOST_BATCH, max(LEAST_BATCH, power))


@MODELS.register("mlp")
class Mlp(NeuralSettings):
    """Multi-layer perceptron: a classifier or a regressor, by the task.

    Runs in PyTorch on the CPU or the GPU (``pip install 'gpupipe[torch]'``). It reads the embedding view: numbers and
    categories get a vector each. ``depth`` layers of ``width`` units follow, with dropout after each.

    Tuned values of parameters that are not stated are those of RealMLP-TD (Holzmüller et al. 2024,
    https://arxiv.org/abs/2407.04491), with fewer epochs, and without label smoothing, which its authors and TabArena
    switch off where probabilities count. All categories get an embedding of the same size as numbers.
    """

    kind = "mlp"
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        task: _REAL_MLP | ({} if task in CLASSIFICATION else {"activation": "mish", "learning_rate": 0.2})
        for task in SUPERVISED
    }

    embedding_size: PositiveInt = Field(16, description="Length of the vector of each number and each category.")
    depth: PositiveInt = Field(3, description="Number of layers.")
    width: PositiveInt = Field(256, description="Units per layer.")
    dropout: Rate = Field(0.2, description="Dropout probability after each layer.")
    number_encoding: NumberEncoding = Field(
        "piecewise_linear",
        description="Encoding of numbers. piecewise_linear: position in n_bins bins. periodic: 16 cosines with learned "
        "frequencies, next to the number; n_bins is not used.",
    )
    parametrization: Parametrization = Field(
        "standard",
        description="standard: PyTorch's initialization. ntk: that of RealMLP: weights divided by the square root of "
        "the number of inputs, a learned scale of each input, separate learning rates of scales, biases, activations "
        "and frequencies, and dropout and weight decay that fall to 0 in the second half of the training.",
    )
    activation: Activation = Field(
        "relu", description="Activation of each layer; with ntk, each unit learns the strength of its activation."
    )


@MODELS.register("tabm")
class TabM(NeuralSettings):
    """Ensemble of perceptrons that share their layers (TabM): a classifier or a regressor, by the task.

    Runs in PyTorch on the CPU or the GPU (``pip install 'gpupipe[torch]'``). It reads the embedding view: numbers get a
    piecewise-linear encoding, categories an embedding. Each of the ``members`` scales these inputs by its own learned
    weights, passes them through the ``depth`` layers that all members share, and has its own output layer (TabM-mini,
    Gorishniy et al. 2025, https://arxiv.org/abs/2410.24210). Members are trained side by side, each on its own loss; a
    prediction is the mean of their probabilities or values, and early stopping follows the loss of that mean.
    """

    kind = "tabm"
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {task: _TABM for task in SUPERVISED}

    embedding_size: PositiveInt = Field(16, description="Length of the vector of each number and each category.")
    depth: PositiveInt = Field(2, description="Number of layers.")
    width: PositiveInt = Field(128, description="Units per layer.")
    dropout: Rate = Field(0.1, description="Dropout probability after each layer.")
    members: Annotated[int, Field(ge=2, le=1024)] = Field(32, description="Number of perceptrons.")


@MODELS.register("ft_transformer")
class FtTransformer(NeuralSettings):
    """FT-Transformer: a classifier or a regressor, by the task.

    Runs in PyTorch on the CPU or the GPU (``pip install 'gpupipe[torch]'``). It reads the embedding view: each column
    is a token, numbers by a piecewise-linear encoding and categories by an embedding. ``depth`` blocks of
    self-attention follow. Time and memory grow with the square of the number of columns.

    Tuned values of parameters that are not stated are the defaults of its authors (Gorishniy et al. 2021,
    https://arxiv.org/abs/2106.11959). They are meant for a GPU; ``defaults: library`` is a smaller network.
    """

    kind = "ft_transformer"
    tuned: ClassVar[Mapping[Task, Mapping[str, Any]]] = {
        task: _STOP
        | {
            "embedding_size": 192,
            "depth": 3,
            "hidden": 256,
            "heads": 8,
            "learning_rate": 1e-4,
            "weight_decay": 1e-5,
            "attention_dropout": 0.2,
            "hidden_dropout": 0.1,
        }
        for task in SUPERVISED
    }

    embedding_size: PositiveInt = Field(32, description="Length of the token of each column; a multiple of heads.")
    depth: PositiveInt = Field(2, description="Number of blocks.")
    hidden: PositiveInt = Field(64, description="Units of the feed-forward layer of a block.")
    heads: PositiveInt = Field(4, description="Number of attention heads.")
    dropout: Rate = Field(0.0, description="Dropout probability after each residual branch.")
    hidden_dropout: Rate = Field(0.1, description="Dropout probability inside the feed-forward layer.")
    attention_dropout: Rate = Field(0.2, description="Dropout probability of attention weights.")

    def for_task(self, task: Task) -> Self:
        """Return the settings with tuned values; a stated number of heads or size keeps the other one divisible."""
        filled = super().for_task(task)
        if filled.embedding_size % filled.heads == 0:
            return filled
        return filled.model_copy(update={"embedding_size": self.embedding_size, "heads": self.heads})

    @model_validator(mode="after")
    def _check_heads(self) -> Any:
        if self.embedding_size % self.heads:
            raise ValueError(f"embedding_size {self.embedding_size} is not a multiple of heads {self.heads}")
        return self
