# SPDX-License-Identifier: Apache-2.0
"""The report of a benchmark: rows whose column names contain the units, as a table and as JSON.

Endings of column names: `_s` seconds, `_ms` milliseconds, `_ratio` a ratio in which more is better (2: twice as
good) except `_memcpy_ratio`, `_copy_ratio`, `_alone_ratio` and `limit_ratio`, a time as a multiple of memcpy's, of a
copy's, of computing alone or of the limit (2: takes twice as long), and `spreads_ratio`, a difference as a multiple of
a spread, `_gbps` 10^9 bytes per second, `_gbitps` 10^9 bits per second, `_percent` hundredths, `bytes` bytes. A
measured quantity is three columns: the median (`time_s`), the smallest and the largest (`time_min_s`, `time_max_s`).
null in JSON, "-" in tables: does not apply.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

Value: TypeAlias = str | int | float | Mapping[str, float] | None
Row: TypeAlias = dict[str, Value]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parse_size(text: str) -> int:
    """Bytes: "100M" is 100·10^6 (K, M, G are powers of 1000, as in network rates), "4Mi" is 4·2^20 (Ki, Mi, Gi); case
    does not matter, a trailing B is allowed. Raises argparse.ArgumentTypeError, so it can be an argument's type."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?)?B?", text.strip().upper())
    size = float(match[1]) * _UNITS[match[2] or ""] if match else 0.0
    if size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected bytes, such as 4096, 100M or 4Mi")
    return int(size)


def format_size(size: int) -> str:
    """The shortest exact text that `parse_size` reads back: 100M, 4Mi, 4097."""
    for unit in ("GI", "G", "MI", "M", "KI", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit.capitalize()}"
    return str(size)


def parse_names(text: str) -> list[str]:
    """Names separated by commas; a comma inside parentheses belongs to a name: "none,dgc(ratio=0.01,warmup=4)"."""
    return [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]


def spread(name: str, seconds: Sequence[float]) -> Row:
    """The three columns of a measured time: median, smallest, largest."""
    return {f"{name}_s": statistics.median(seconds), f"{name}_min_s": min(seconds), f"{name}_max_s": max(seconds)}


def print_table(rows: Sequence[Row], *, leave_out: Sequence[str] = ()) -> None:
    """Prints the rows: a drawn table on a terminal, aligned plain text elsewhere. Columns with the same value in all of
    several rows come first, in one line."""
    names = [name for name in rows[0] if name not in leave_out]
    common = [name for name in names if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    if common:
        print(", ".join(f"{name} {_text(name, rows[0][name])}" for name in common))
    names = [name for name in names if name not in common]
    lines = [[_text(name, row[name]) for name in names] for row in rows]
    right = [any(isinstance(row[name], int | float) for row in rows) for name in names]
    console = Console()
    if console.is_terminal:
        table = Table(*[], header_style="bold")
        for name, is_number in zip(names, right, strict=True):
            table.add_column(name, justify="right" if is_number else "left", overflow="fold")
        for line in lines:
            table.add_row(*line)
        console.print(table)
        return
    # rich would wrap lines at 80 characters, which makes files hard to search.
    widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
    for line in [names, *lines]:
        cells = (
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(line, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip())


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """Writes the rows as a JSON list of objects, one line per column, so that version control shows the changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([_rounded(row) for row in rows], indent=1, allow_nan=False) + "\n")


def _rounded(row: Row) -> Row:
    """Rounds numbers to four digits; further digits are noise."""

    def rounded(value: Value) -> Value:
        if isinstance(value, Mapping):
            return {name: float(f"{one:.4g}") for name, one in value.items()}
        return float(f"{value:.4g}") if isinstance(value, float) else value

    return {name: rounded(value) for name, value in row.items()}


def _text(name: str, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and name.startswith("size"):
        return format_size(value)
    if isinstance(value, float):
        if name.endswith("_ms"):
            return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
        if name.endswith("_s"):
            return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
        return f"{value:.2f}" if name.endswith(("_ratio", "_gbps", "_gbitps", "_percent")) else f"{value:.2g}"
    return str(value)
