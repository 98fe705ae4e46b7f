"""Custom kernels for the configurations of the tests."""

from __future__ import annotations

import gpupipe as gp


@gp.kernel
def scaled(x):
    return x * 2.0 + 1.0


def plain(x):
    return x


made_later = gp.kernel(plain)


@gp.kernel
def mistyped(x):
    return x << 1
