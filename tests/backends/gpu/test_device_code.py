"""Checks of kernels before a run on a GPU; `test_imports` covers a GPU whose kernels have to be compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpupipe.backends.gpu.device_code import require_call_compiler, require_kernels
from gpupipe.errors import DeviceError
from gpupipe_kernels.device import binaries, compiler, functions


def test_kernels_of_users_are_refused_by_name_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compiler_obstacle", lambda: "numba-cuda is not installed")
    program: Any = SimpleNamespace(calls=())
    require_call_compiler(program)
    program.calls = (SimpleNamespace(name="risk"), SimpleNamespace(name="margin"))
    with pytest.raises(DeviceError, match=r"kernels .* \(numba-cuda is not installed\): risk, margin") as raised:
        require_call_compiler(program)
    assert raised.value.fix == "pip install 'numba-cuda[cu13]' (or cu12), or run with --device cpu"
    monkeypatch.setattr(compiler, "compiler_obstacle", lambda: "")
    require_call_compiler(program)


def test_a_gpu_that_no_shipped_code_runs_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "current_device", lambda: 0)
    monkeypatch.setattr(functions, "capability", lambda device: (7, 0))
    with pytest.raises(DeviceError, match=r"expected a GPU of compute capability 7\.5 or later, found 7\.0"):
        require_kernels()
    monkeypatch.setattr(functions, "capability", lambda device: (9, 0))
    monkeypatch.setattr(binaries, "is_current", lambda: True)
    require_kernels()
