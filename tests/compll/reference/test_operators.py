# SPDX-License-Identifier: Apache-2.0
"""The operators have their documented meaning on awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress.errors import InvalidArgument
from tests.compll.programs import SIZES, encoder, evaluated, floats, normal, vector

SOME = [size for size in SIZES if size]  # encode does not run for a gradient without elements
SMALL = "[&](float x) -> bool { return x < 0; }"


@pytest.mark.parametrize("size", SOME)
def test_map_filter_sort(size: int) -> None:
    g = normal(size, size)
    assert np.array_equal(vector("map(gradient, [&](float x) -> float { return 2 * x; })", "float", g), 2 * g)
    assert np.array_equal(vector(f"filter(gradient, {SMALL})", "float", g), g[g < 0])
    assert np.array_equal(vector("sort(gradient, [&](float x) -> float { return -x; })", "float", g), np.sort(g)[::-1])
    parity = vector("sort(range(gradient.size), [&](int i) -> int { return i % 2; })", "int", g)
    assert parity.tolist() == [*range(0, size, 2), *range(1, size, 2)], "sort is stable"


@pytest.mark.parametrize("size", SOME)
def test_index_gather_scatter_take_fill(size: int) -> None:
    g = normal(size, size)
    below = np.flatnonzero(g < 0)
    index = "int* at = filter(range(gradient.size), [&](int i) -> bool { return gradient[i] < 0; });"
    assert np.array_equal(vector("at", "int", g, index.replace("at =", "at0 =") + "int* at = map(at0, abs);"), below)
    assert np.array_equal(vector("gather(gradient, at)", "float", g, index), g[below])
    expected = g.copy()
    expected[below] = 0
    assert np.array_equal(vector("scatter(gradient, at, 0.0)", "float", g, index), expected)
    assert np.array_equal(vector("take(gradient, 8)", "float", g), g[:8])
    assert vector("fill(gradient.size, 1.5)", "float", g).tolist() == [1.5] * size
    assert vector("take(range(gradient.size), -1 + 0 * gradient.size)", "int", g).size == 0


def lanes(values: NDArray[np.float64]) -> float:
    """A second implementation of the order of reductions, with loops."""
    while len(values) > 1:
        results = []
        for start in range(0, len(values), 4096):
            block = values[start : start + 4096]
            partial: list[float] = []
            for lane in range(min(16, len(block))):
                total = block[lane]
                for value in block[lane + 16 :: 16]:
                    total = total + value
                partial.append(total)
            result = partial[0]
            for total in partial[1:]:
                result = result + total
            results.append(result)
        values = np.array(results)
    return float(values[0])


@pytest.mark.parametrize("size", [*SOME, 4095, 4096, 4097, 70001])
def test_order_of_reductions(size: int) -> None:
    g = (normal(size, size) * np.exp(normal(size, size + 1) * 9)).astype(np.float32)
    assert evaluated("sum(gradient)", gradient=g) == np.float32(0.0 + lanes(g.astype(np.float64)))
    run = encoder(
        "lambda_func add = [&](float a, float b) -> float { return a + b; }\n"
        "float x = reduce(gradient, 0.5, add);\ncompressed = concat(x);"
    )
    expected = np.float32(0.5) + np.float32(lanes(g))  # the interpreter rounds every step to float
    assert np.frombuffer(run.encode(g), "<f4")[0] == expected


@pytest.mark.parametrize("size", [*SOME, 9000])
@pytest.mark.parametrize("block", [1, 3, 64, 5000])
def test_blocks(size: int, block: int) -> None:
    g = normal(size, size)
    starts = range(0, size, block)
    add = "[&](double a, double b) -> double { return a + b; }"
    text = f"double* s = reduce_blocks(gradient, 0.0, {add}, {block});"
    got = vector("map(s, [&](double x) -> float { return x; })", "float", g, text)
    assert got.tolist() == [np.float32(0.0 + lanes(g[i : i + block].astype(np.float64))) for i in starts]
    peak = f"float* top = reduce_blocks(map(gradient, abs), 0.0, max, {block});"
    subtract = f"map(gradient, spread(top, {block}), [&](float g, float t) -> float {{ return g - t; }})"
    expected = g - np.repeat([np.abs(g[i : i + block]).max() for i in starts], block)[:size]
    assert np.array_equal(vector(subtract, "float", g, peak), expected)


@pytest.mark.parametrize("size", [*SOME, 9000])
def test_a_reduction_may_ignore_an_argument(size: int) -> None:
    first, one = "[&](float a, float b) -> float { return a; }", "[&](float a, float b) -> float { return 1.0; }"
    for function, expected in ((first, 2.0), (one, 1.0)):
        text = f"float* s = reduce_blocks(gradient, 2.0, {function}, 7);"
        got = vector("s", "float", normal(size, size), text.replace("* s", "* s0") + "float* s = map(s0, abs);")
        assert got.tolist() == [expected] * -(-size // 7)


def test_several_results_and_order_of_evaluation() -> None:
    run = encoder(
        "(uint2* a, held) = map(gradient, held, [&](float g, float h) -> (uint2, float) { return h, g; });\n"
        "compressed = concat(a, held);",
        "state float* held",
    )
    state = {"held": floats(1, 2, 3)}
    message = run.encode(floats(7, 8, 9), state)
    assert message[:1] == b"\x39"
    assert np.frombuffer(message[1:], "<f4").tolist() == [1, 2, 3], "reading a state gives its old value"
    assert state["held"].tolist() == [7, 8, 9]


def test_random() -> None:
    g = normal(1000)
    one = vector("map(gradient, [&](float x) -> float { return random<float>(0, 1); })", "float", g)
    two = vector(
        "map(gradient, [&](float x) -> float { float a = random<float>(0, 1); return random<float>(0, 1); })",
        "float",
        g,
    )
    assert ((one >= 0) & (one < 1)).all()
    assert not np.array_equal(one, two), "every call draws its own numbers"


def test_indices_made_by_encode_are_checked() -> None:
    body = "int* at = sort(range(gradient.size), [&](int i) -> int { return -i; });\n"
    with pytest.raises(InvalidArgument, match="must increase"):
        encoder(body + "float* x = scatter(gradient, at, 0.0);\ncompressed = concat(x);").encode(floats(1, 2))
    with pytest.raises(InvalidArgument, match="index 2 in a vector of 2"):
        encoder("float* x = gather(gradient, range(3));\ncompressed = concat(x);").encode(floats(1, 2))
