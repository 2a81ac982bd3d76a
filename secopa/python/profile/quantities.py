# SPDX-License-Identifier: Apache-2.0
"""Seconds, bytes and rates as text with three digits and a unit, and back.

Sizes have binary units (1 KiB = 1,024 bytes), rates have decimal units (1 Gbit/s = 10⁹ bits per second).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hipress.errors import InvalidArgument

#: Units from the smallest on, each in seconds or bytes.
_TIMES = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_SIZES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))


def seconds(value: float) -> str:
    """A time as text, such as "2.13 ms"."""
    return _scaled(value, _TIMES)


def size(value: float) -> str:
    """A size as text, such as "392 MiB"."""
    return _scaled(value, _SIZES)


def share(part: float, whole: float) -> str:
    """A share as text, such as "35%"; "-" if the whole is 0."""
    return f"{part / whole:.0%}" if whole else "-"


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    if value == 0:
        return f"0 {units[0][1]}"
    # A value of 999.6 would be printed as 1000, so it gets the next unit.
    one, unit = next(((one, unit) for one, unit in reversed(units) if abs(value) >= 0.9995 * one), units[0])
    shown = f"{value / one:.3g}"
    return f"{float(shown):.0f} {unit}" if "e" in shown else f"{shown} {unit}"


#: Units of rates as tc(8) writes them, in bits per second.
_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_DURATIONS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def rate(bytes_per_s: float) -> str:
    """A rate as text, such as "25 Gbit/s"."""
    bits = 8 * bytes_per_s
    unit, one = next(((unit, one) for unit, one in reversed(_RATES.items()) if bits >= 0.9995 * one), ("kbit", 1e3))
    return f"{float(f'{bits / one:.3g}'):g} {unit.capitalize()}/s"


def parse_rate(text: str) -> float:
    """Bytes per second of a text such as "25gbit". Raises InvalidArgument."""
    return _parsed(text, _RATES, "a rate such as 25gbit or 2.5gbit") / 8


def parse_seconds(text: str) -> float:
    """Seconds of a text such as "50us". Raises InvalidArgument."""
    return _parsed(text, _DURATIONS, "a time such as 50us or 1.5ms")


def _parsed(text: str, units: Mapping[str, float], expected: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)", text.strip().lower())
    if match is None or match[2] not in units or not 0 < float(match[1]) < 1e12:
        raise InvalidArgument(f"'{text}': expected {expected}")
    return float(match[1]) * units[match[2]]
