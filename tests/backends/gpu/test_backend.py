"""The GPU backend without a GPU: it has the interface of the host's backend."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

from gpupipe.backends.base import Backend, DeviceBackend
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.gpu.backend import GpuBackend, _Meter


def methods_of(backend: type) -> Iterator[tuple[str, Any]]:
    for name, value in inspect.getmembers(backend):
        if not name.startswith("_") and inspect.isfunction(value):
            yield name, inspect.signature(value)


def properties_of(backend: type) -> set[str]:
    found = inspect.getmembers(backend, lambda value: isinstance(value, property | cached_property))
    return {name for name, _ in found if not name.startswith("_")}


@pytest.mark.parametrize(("backend", "contract"), [(CpuBackend, Backend), (GpuBackend, DeviceBackend)])
def test_a_backend_has_the_methods_of_the_contract_with_the_same_arguments_and_defaults(
    backend: type, contract: type
) -> None:
    assert dict(methods_of(backend)) == dict(methods_of(contract))
    assert properties_of(backend) == properties_of(contract)


@pytest.mark.parametrize("backend", [CpuBackend, GpuBackend])
def test_a_backend_implements_the_whole_contract(backend: type) -> None:
    assert inspect.isabstract(backend) is False


def test_without_a_device_s_counters_there_is_no_peak() -> None:
    meter = _Meter()
    meter.open()
    assert meter.close(None).peak_bytes is None
