"""Feature computed by a user's kernel."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema, field_validator

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, FeatureOp
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, combine
from gpupipe.references import split_reference
from gpupipe_kernels.user.file import declared
from gpupipe_kernels.user.kernel import MOST_INPUTS, KernelError, UserKernel, load

OBJECT = "python object "  # written instead of a file, for a kernel passed from Python


def read_use(value: Any) -> str | UserKernel:
    """Return the reference or kernel of ``use:``, after checking the file without running it.

    Raise ValueError if the file does not exist, or does not define a kernel of that name.
    """
    if isinstance(value, UserKernel):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected file.py:function, got {value!r}")
    if value.startswith(OBJECT):
        raise ValueError(
            "this kernel was passed as a Python object; use a file, such as model/kernel_NAME.py of the run"
        )
    declared(*split_reference(value))
    return value


def write_use(use: str | UserKernel) -> str:
    """Return the text of ``use:`` in a written configuration."""
    return use if isinstance(use, str) else f"{OBJECT}{use.name}, sha256 {use.sha256}"


Use = Annotated[
    Any, PlainValidator(read_use), PlainSerializer(write_use, return_type=str), WithJsonSchema({"type": "string"})
]


@OPS.register("kernel")
class Kernel(FeatureOp):
    """Compute one column from others with your own Python function, compiled by Numba for the CPU or the GPU.

    The file defines the function with the decorator ``@gp.kernel``; each parameter is one float32 input. Inputs are
    numeric or boolean columns, as earlier ops left them, and remain features. A null input gives null; with
    ``@gp.kernel(nulls="pass")`` the function receives NaN instead. Null where it returns NaN. The model contains the
    source of the function; loading it requires the user's permission.

    Output: one column, named like the function unless ``as`` names it; float32.

    Examples:
        >>> from pathlib import Path
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> source = '''
        ... import gpupipe as gp
        ...
        ... @gp.kernel
        ... def loyalty(months, spend):
        ...     return spend / (1.0 + months)
        ... '''
        >>> _ = Path("my_kernels.py").write_text(source)
        >>> frame = pd.DataFrame({"months": [1, 9], "spend": [20.0, 50.0]})
        >>> ops = [{"kernel": {"use": "my_kernels.py:loyalty", "inputs": ["months", "spend"]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           months  spend  loyalty
        0     1.0   20.0     10.0
        1     9.0   50.0      5.0
    """

    use: Use = Field(description="file.py:function, relative to the configuration; in Python also a kernel object.")
    inputs: list[str] = Field(
        min_length=1,
        max_length=MOST_INPUTS,
        description="Input columns, one for each parameter of the function, in order.",
    )
    name: str | None = Field(None, alias="as", description="Name of the new column; default: the name of the function.")

    @field_validator("inputs")
    @classmethod
    def _check_n_inputs(cls, inputs: list[str], info: ValidationInfo) -> list[str]:
        use = info.data.get("use")
        parameters = use.parameters if isinstance(use, UserKernel) else None
        if isinstance(use, str):
            parameters = declared(*split_reference(use))
        if parameters is not None and len(parameters) != len(inputs):
            raise ValueError(_miscounted(parameters, inputs))
        return inputs

    def named_inputs(self) -> tuple[str, ...]:
        """Return the input columns."""
        return tuple(self.inputs)

    @cached_property
    def kernel(self) -> UserKernel:
        """The kernel; its file is run once, on first access."""
        if isinstance(self.use, UserKernel):
            return self.use
        return load(*split_reference(self.use))

    def apply(self, builder: ProgramBuilder) -> None:
        """Compile the kernel, so that its errors surface before any row is computed, and add the column."""
        try:
            kernel = self.kernel
            kernel.compile()
        except KernelError as error:
            raise ConfigError(error.what, where=error.where, fix=error.fix) from error
        if kernel.n_inputs != len(self.inputs):
            raise ConfigError(_miscounted(kernel.parameters, self.inputs))
        inputs = tuple(_number(name, builder) for name in self.inputs)
        made = combine(self.name or kernel.name, "CALL", inputs, call=kernel)
        builder.record_state(type(self).__name__, made.name, {"kernel": kernel.name, "sha256": kernel.sha256})
        builder.add(made)


def _miscounted(parameters: tuple[str, ...], inputs: list[str]) -> str:
    return f"expected one input for each parameter ({', '.join(parameters)}); got {len(inputs)}"


def _number(name: str, builder: ProgramBuilder) -> NumericExpr:
    """Return a numeric column, as earlier ops left it."""
    if name not in builder.columns:
        raise builder.missing_column(name, "kernel")
    return builder.select_numbers([name], "kernel")[0]
