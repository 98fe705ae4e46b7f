"""Neural models of a configuration: ``mlp``, ``resnet``, ``ft_transformer``. Nothing here imports PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, NonNegative, Positive, PositiveInt, Share
from gpupipe.models.neural.architecture import Architecture, Kind
from gpupipe.tasks import SUPERVISED, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Rate = Annotated[float, Field(ge=0, lt=1)]  # of dropout
LEAST_BATCH, MOST_BATCH, STEPS_AN_EPOCH = 256, 4096, 64
ROWS_A_BIN = 32  # with fewer, a network learns the rows of a bin by heart


class NeuralSettings(ModelSettings):
    """Settings of all networks: embedding of numbers and categories, and training.

    AdamW on batches drawn anew in each epoch; the learning rate rises over ``warmup`` of all steps, then falls along a
    cosine to 0, or stays. After each epoch the loss of ``validation_fraction`` of the training rows (drawn with the
    seed, stratified by class) is measured: the weights of the best epoch are kept, and after ``patience`` epochs
    without a better one training ends. ``batch_size`` auto: such that an epoch has about 64 steps, 256 to 4,096 rows.
    ``precision`` auto: bfloat16 or float16 on a device that computes in it, float32 on the CPU.
    """

    tasks = SUPERVISED
    view = "embedding"
    kind: ClassVar[Kind]

    n_bins: PositiveInt = 32
    batch_size: Literal["auto"] | PositiveInt = "auto"
    epochs: PositiveInt = 30
    learning_rate: Positive = 1e-3
    weight_decay: NonNegative = 1e-4
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: Rate = 0.05
    patience: PositiveInt | None = 6
    validation_fraction: Share = 0.15
    gradient_clip: Positive | None = 1.0
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    compile: bool = False
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "Network"

    def modules(self, task: Task, backend: Backend) -> tuple[str, ...]:
        return "torch", "gpupipe.models.neural.fit"

    def architecture(self, n_numbers: int, cardinalities: tuple[int, ...], n_outputs: int, n_rows: int) -> Architecture:
        """Return the network for so many columns and outputs; of few rows, numbers have fewer bins."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name in Architecture.__annotations__}
        own["n_bins"] = max(1, min(self.n_bins, n_rows // ROWS_A_BIN))
        return Architecture(self.kind, n_numbers, cardinalities, n_outputs, **own)

    def rows_a_batch(self, n_rows: int) -> int:
        """Return the batch size for so many training rows."""
        if self.batch_size != "auto":
            return self.batch_size
        power = 1 << max(0, (n_rows // STEPS_AN_EPOCH).bit_length() - 1)
        return min(MOST_BATCH, max(LEAST_BATCH, power))


@MODELS.register("mlp")
class Mlp(NeuralSettings):
    """A multi-layer perceptron: ``depth`` layers of ``width``, with dropout after each."""

    kind = "mlp"

    embedding_size: PositiveInt = 16
    depth: PositiveInt = 3
    width: PositiveInt = 256
    dropout: Rate = 0.2


@MODELS.register("resnet")
class ResNet(NeuralSettings):
    """A residual network: ``depth`` blocks, each of which widens ``width`` to ``hidden`` and back."""

    kind = "resnet"

    embedding_size: PositiveInt = 16
    depth: PositiveInt = 2
    width: PositiveInt = 128
    hidden: PositiveInt = 256
    dropout: Rate = 0.0
    hidden_dropout: Rate = 0.2


@MODELS.register("ft_transformer")
class FtTransformer(NeuralSettings):
    """FT-Transformer: each column is a token of ``embedding_size``; ``depth`` blocks of attention among them."""

    kind = "ft_transformer"

    embedding_size: PositiveInt = 32
    depth: PositiveInt = 2
    hidden: PositiveInt = 64
    heads: PositiveInt = 4
    dropout: Rate = 0.0
    hidden_dropout: Rate = 0.1
    attention_dropout: Rate = 0.2

    @model_validator(mode="after")
    def _heads_share_the_token(self) -> Any:
        if self.embedding_size % self.heads:
            raise ValueError(f"embedding_size {self.embedding_size} is no multiple of heads {self.heads}")
        return self
