# SPDX-License-Identifier: Apache-2.0
"""Times, bytes and rates as people read them."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Three digits: 1.23 s, 45.6 ms, 7.89 µs."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value / 1e-6)} µs"


def size(value: float) -> str:
    """In powers of 1000, as network rates are."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{value:.0f} bytes"


def rate(bytes_per_s: float) -> str:
    """Of a network."""
    return f"{_digits(bytes_per_s * 8 / 1e9)} Gbit/s"


def share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
