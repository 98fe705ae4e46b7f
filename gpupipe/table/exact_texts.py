"""Canonical texts of values whose every digit counts, without Arrow: decimals, large integers, UUIDs and bytes."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

MOST_DIGITS = 76  # of decimal256


def exact_text(value: Any) -> str | None:
    """Return an integer, decimal or UUID as a level, ``""`` for NaN; None for others, infinity, and over 76 digits.

    >>> exact_text(2**70), exact_text(Decimal("1.50")), exact_text(10**76)
    ('1180591620717411303424', '1.5', None)
    """
    if type(value) is int:
        return str(value) if -(10**MOST_DIGITS) < value < 10**MOST_DIGITS else None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return "" if value.is_nan() else None
        return decimal_text(value) if abs(value.adjusted()) < MOST_DIGITS else None
    return str(value) if type(value).__name__ == "UUID" and type(value).__module__ == "uuid" else None


def decimal_text(value: Decimal) -> str:
    """Return a decimal as a level: whole numbers in full, others as the float that they equal, else in full.

    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal(2**53 + 1)), decimal_text(Decimal("1234567890.123456789"))
    ('1.5', '9007199254740993', '1234567890.123456789')
    """
    if value == value.to_integral_value():
        return f"{value:.0f}" if value else "0"
    with localcontext(prec=MOST_DIGITS + 1):
        short = repr(float(value))
        return short if Decimal(short) == value else f"{value.normalize():f}"


def bytes_text(value: bytes) -> str:
    """Return a binary value as a level: its text if it is UTF-8, else ``0x`` and hexadecimal digits.

    The rule applies to each value by itself, so that a value has the same level in any column.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def uuid_text(value: bytes) -> str:
    """Return 16 bytes as a UUID in its canonical form, with hyphens and lower-case digits."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
