# SPDX-License-Identifier: Apache-2.0
"""Seconds and bytes as people read them: three digits and a unit."""

from __future__ import annotations

#: From the smallest; what one is in seconds, or bytes.
_TIMES = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_SIZES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))


def seconds(value: float) -> str:
    """Such as "2.13 ms"."""
    return _scaled(value, _TIMES)


def size(value: float) -> str:
    """Such as "392 MiB"."""
    return _scaled(value, _SIZES)


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    if value == 0:
        return f"0 {units[0][1]}"
    # 999.6 would be shown as 1000.
    one, unit = next(((one, unit) for one, unit in reversed(units) if abs(value) >= 0.9995 * one), units[0])
    shown = f"{value / one:.3g}"
    return f"{float(shown):.0f} {unit}" if "e" in shown else f"{shown} {unit}"
