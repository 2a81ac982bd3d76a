# SPDX-License-Identifier: Apache-2.0
"""The tables of element types in the guide: what each way into HiPress does with each type, without a codec and with
one; and, for frameworks whose arrays NumPy understands, the ranks' values and the results that are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.errors import HipressError

#: Elements of a row divide evenly among ranks; there are enough bytes for a codec to be worth it.
SHAPE = (64, 80)
CODEC = "int8"
#: How far int8 may be off: it divides blocks by their greatest value, below 6 here, and encodes twice.
CODED = 0.12

Types = Mapping[str, tuple[str, ...]]
#: By way, type and codec: "exact", "codec", "refused", ...
Outcomes = dict[tuple[str, str, str], str]

_PAGE = Path(__file__).parents[2] / "docs" / "guide" / "element-types.md"
_END = "<!-- element types: end -->\n"
#: What a cell of the table says of a type without a codec and with one; "": the way in has no codecs.
_SAID = {
    ("exact", "codec"): "yes",
    ("exact", ""): "yes",
    ("exact", "exact"): "exact",
    ("floats", "floats"): "floats",
    ("exact", "refused"): "no codec",
    ("refused", "refused"): "refused",
    ("refused", ""): "refused",
    ("framework", "framework"): "–",
    ("framework", "refused"): "–",
    ("framework", ""): "–",
}
#: The last bit of types that NumPy knows, and of bfloat16.
_PRECISION = {
    "64": 2.0**-52,
    "128": 2.0**-52,
    "32": 2.0**-23,
    "complex64": 2.0**-23,
    "bfloat16": 2.0**-7,
    "16": 2.0**-10,
}


def written(framework: str) -> str:
    """The framework's table in the guide."""
    return _PAGE.read_text().partition(f"<!-- element types of {framework} -->\n")[2].partition(_END)[0]


def table(found: Outcomes, ways: Iterable[str], types: Types) -> str:
    """The table of these outcomes. To change the guide, copy the lines that the failing test shows into the page."""
    rows = [["", *types], ["---"] * (len(types) + 1)]
    rows += [[way, *(_cell(found, way, names) for names in types.values())] for way in ways]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in rows)


def _cell(found: Outcomes, way: str, names: tuple[str, ...]) -> str:
    pairs = {name: (found[way, name, "none"], found[way, name, CODEC]) for name in names}
    said = {name: _SAID.get(pair, " | ".join(pair)) for name, pair in pairs.items()}
    most = max(said.values(), key=list(said.values()).count)
    others = [f"{name}: {each}" for name, each in said.items() if each != most]
    return f"{most} ({', '.join(others)})" if others else most


def outcome(way: Callable[[Any], str], cell: Any) -> str:
    """What the way in does with the type `cell.name`: what it returns, "refused", "framework", or what is wrong."""
    try:
        return way(cell)
    except HipressError as error:
        return "refused" if cell.name in str(error) else f"refused without the type's name: {error}"
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:  # the framework itself has no such value
        said = str(error).partition("\n")[0]  # later lines may have paths, also of a folder with our name
        return f"of the framework: {said}" if "hipress" in said.lower() else "framework"


def values(rank: int, name: str, dtype: Any) -> NDArray[Any]:
    """The rank's values, as an array of `dtype`; `name` is the type's name in the framework."""
    reals = np.random.default_rng(rank).standard_normal((*SHAPE, 2))
    if name.startswith("complex"):
        return (reals[..., 0] + 1j * reals[..., 1]).astype(dtype)
    if is_real(name):
        return reals[..., 0].astype(dtype)
    return reals[..., 0] > 0 if name == "bool" else np.abs(10 * reals[..., 0]).astype(np.uint8).astype(dtype)


def is_real(name: str) -> bool:
    """Whether the type holds real numbers that are not whole."""
    return name.startswith(("float", "bfloat"))


class Cell:
    """A type, on one of two ranks, with the values that are expected.

    Arguments:
        dtype: what NumPy takes for the type.
    """

    def __init__(self, name: str, codec: str, dtype: Any, rank: int) -> None:
        self.name, self.codec, self.rank = name, codec, rank
        self.both = [values(rank, name, dtype) for rank in range(2)]
        self.own = self.both[rank]
        #: This rank's rows of a result that the ranks divide.
        self.rows = slice(32 * rank, 32 * rank + 32)
        bits = name if name in _PRECISION else name.removeprefix("float").removeprefix("complex")
        self._precision = _PRECISION.get(bits, 0.0) if is_real(name) or name.startswith("complex") else 0.0

    def check(self, found: Any, wanted: NDArray[Any], slack: float = 0.0) -> str:
        """ "exact", "codec", or an assertion. `slack`: how many last bits of numbers near 1 rounding may cost."""
        error = float(np.abs(_wide(found) - _wide(wanted)).max())
        slack *= self._precision
        if self.codec != "none" and (error > slack or (error > 0 and self._precision > 2.0**-20)):
            assert error <= CODED + slack, f"{error} off"
            return "codec"
        assert error <= slack, f"{error} off"
        return "exact"

    def averaged(self, found: Any, rows: slice = slice(None)) -> str:
        """Checks the average of both ranks' values. Their sum and its half are rounded once each, at values below 8."""
        return self.check(found, self.mean()[rows], 16)

    def mean(self) -> NDArray[Any]:
        """The average of both ranks' values; that of whole numbers is whole."""
        first, second = map(_wide, self.both)
        mean = (first + second) / 2
        return mean if self._precision else np.trunc(mean)

    def added(self, found: Any) -> str:
        """Checks the sum; of truth values whether one is true."""
        first, second = map(_wide, self.both)
        return self.check(found, np.maximum(first, second) if self.name == "bool" else first + second, 32)

    def greatest(self, least: Any, greatest: Any, product: Any) -> str:
        """Checks the minimum, the maximum and the product, which whole numbers compute modulo their range."""
        self.check(least, np.minimum(*self.both))
        self.check(product, self.both[0] * self.both[1], 16)
        return self.check(greatest, np.maximum(*self.both))

    def moved(self, broadcast: Any, gathered: Any, exchanged: Any) -> str:
        """Checks rank 1's values, the rows of both ranks, and this rank's rows of both."""
        self.check(broadcast, self.both[1])
        self.check(gathered, np.concatenate(self.both))
        return self.check(exchanged, np.concatenate([each[self.rows] for each in self.both]))


def _wide(given: Any) -> NDArray[Any]:
    array = np.asarray(given)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def all_outcomes(ways: Mapping[str, Callable[[Any], str]], types: Types, cell: Callable[[str, str], Any]) -> Outcomes:
    """Takes every way with every type. `cell` makes a cell of a type's name and a codec."""
    found = {}
    for name in (each for names in types.values() for each in names):
        for codec in ("none", CODEC):
            own = cell(name, codec)
            found.update({(way, name, codec): outcome(call, own) for way, call in ways.items()})
    return found
