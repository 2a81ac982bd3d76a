# SPDX-License-Identifier: Apache-2.0
"""A codec that keeps a limit for each block of 256 elements, and the same codec with a limit for each element.

No block depends on another one, so partitions change neither messages nor states.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hipress
from hipress.compll import Interpreter, compile_text

BLOCK = 256
_TEXT = """
void LimitsEncode(float* gradient, uint8* compressed, state float* residual,
                  state float limit[blocks(gradient.size, 256)]) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    float* greatest = reduce_blocks(map(value, abs), 0.0, max, 256);
    float* bound = map(limit, greatest, [&](float l, float g) -> float { return l / 2 + g; });
    limit = bound;
    int4* code = map(value, spread(bound, 256), [&](float x, float b) -> int4 { return b > 0 ? x / b * 7 : 0.0; });
    residual = map(value, code, spread(bound, 256), [&](float x, int4 q, float b) -> float { return x - q * b / 7; });
    compressed = concat(bound, code);
}

void LimitsDecode(uint8* compressed, float* gradient) {
    extract(compressed, float bound[blocks(gradient.size, 256)], int4 code[gradient.size]);
    gradient = map(code, spread(bound, 256), [&](int4 q, float b) -> float { return q * b / 7; });
}
"""
_WHOLE = {
    "Limits": "Wholelimits",
    "state float limit[blocks(gradient.size, 256)]": "state float* limit",
    "map(limit, greatest,": "map(reduce_blocks(limit, 0.0, max, 256), greatest,",
    "limit = bound;": "limit = map(value, spread(bound, 256), [&](float x, float b) -> float { return b; });",
}


#: Ranks agree on the greatest values and add levels. Each rank's limits follow from what all have agreed on.
SUMMED = """
void SummedlimitsEncode(float* gradient, uint8* compressed, state float* residual,
                        state float limit[blocks(gradient.size, 256)]) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    float* greatest = agree(reduce_blocks(map(value, spread(limit, 256), [&](float x, float l) -> float {
        return abs(x) + l / 8;
    }), 0.0, max, 256), max);
    limit = map(limit, greatest, [&](float l, float g) -> float { return l / 2 + g; });
    int8* level = map(value, spread(greatest, 256), [&](float x, float g) -> int8 { return g > 0 ? x / g * 7 : 0.0; });
    float* sent = map(level, spread(greatest, 256), [&](int8 q, float g) -> float { return q * g / 7; });
    residual = map(value, sent, [&](float x, float s) -> float { return x - s; });
    compressed = concat(greatest, add(level, 7));
}

void SummedlimitsDecode(uint8* compressed, float* gradient) {
    extract(compressed, float greatest[blocks(gradient.size, 256)], int8 level[gradient.size]);
    gradient = map(level, spread(greatest, 256), [&](int8 q, float g) -> float { return q * g / 7; });
}
"""


def text(*, whole: bool = False) -> str:
    """The program. `whole`: it gives all elements of a block the limit."""
    result = _TEXT
    for old, new in _WHOLE.items() if whole else ():
        result = result.replace(old, new)
    return result


@cache
def load(folder: Path, *, whole: bool = False) -> str:
    """Compiles the codec and returns its name."""
    return _load(folder, "wholelimits" if whole else "limits", text(whole=whole))


@cache
def load_summed(folder: Path) -> str:
    """Compiles SUMMED and returns the codec's name."""
    return _load(folder, "summedlimits", SUMMED)


def _load(folder: Path, name: str, program: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    source, own = folder / f"{name}.cll", folder / f"{name}.{os.getpid()}"
    own.write_text(program)
    own.replace(source)  # at once, because ranks read the file while others write it
    return hipress.load_codec(source)


def interpreter() -> Interpreter:
    return Interpreter(compile_text(_TEXT))


def blocks(count: int) -> int:
    return -(-count // BLOCK)


def spread(limit: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The limit of each element."""
    return np.repeat(limit, BLOCK)[:count]
