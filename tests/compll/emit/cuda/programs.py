# SPDX-License-Identifier: Apache-2.0
"""The programs that tests compare: built-in codecs, examples, and programs that use the rest of the language."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import compile_file, compile_text, ir
from tests.compll.programs import BUILTIN, EXAMPLES, compiled

SIZES = [1, 7, 255, 256, 257, 4095, 4096, 4097, 20000]

#: Values of parameters that tests use besides the defaults.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "terngrad": [{"bitwidth": b, "stochastic": s} for b in (1, 2, 4, 8) for s in (True, False)],
    "dgc": [{}, {"ratio": 0.1, "residual_factor": 0.3}],
    "graddrop": [{}, {"ratio": 0.05, "sample_rate": 0.01}],
    "onebit": [{}, {"block": 100, "residual_factor": 0.3}, {"block": 5000}],
    "adacomp": [{"bin": 500}, {"bin": 7}],
    "blockquant4": [{}, {"block": 32}],
    "natural_dithering": [{"block": 100}],
    "sparseloco": [{}, {"chunk": 64, "count": 5}],
    "demo": [{}, {"decay": 0.5, "count": 64}],
    "eden": [{}],
    "inceptionn": [{"bound": 5}],
    "linear_dithering": [{"bits": 3, "block": 100}, {"bits": 6, "euclidean": True}],
    "threelc": [{"sparsity": 1.5}],
    "int8": [{}, {"error_feedback": True, "block": 100, "residual_factor": 0.3}, {"stochastic": True, "block": 5000}],
    "fp8_e4m3": [{"error_feedback": True, "block": 100}, {"stochastic": True, "power_of_two": True}],
    "fp8_e5m2": [{}],
    "fp4_e2m1": [{}, {"stochastic": True, "block": 5000}],
    "efsignsgd": [{"block": 100}],
    "qsgd": [{"levels": 7, "error_feedback": True}],
    "natural": [{"error_feedback": True}],
    "topk": [{"ratio": 0.3, "residual_factor": 0.3}],
    "threshold": [{"threshold": 0.5, "ratio": 0.3}],
    "randomk": [{"ratio": 0.3}],
    "u8bit": [{"block": 100, "error_feedback": True}],
    "dynamiq": [{}, {"bits": 3.3, "block": 32, "error_feedback": True}],
    "thc": [{}, {"levels": 31, "reach": 3.3, "stochastic": True, "residual_factor": 0.3}],
    "int4": [{}, {"error_feedback": False, "block": 100}, {"stochastic": True, "block": 5000}],
}

#: Has full sorts, sorts of a filter's elements, ranks in a loop, double keys, and the first elements of a sort.
_SORTS = """
void SortsEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    int* order = sort(range(gradient.size), [&](int i) -> float { return -abs(value[i]); });
    float* ranked = sort(value, [&](float x) -> float { return x; });
    float* near = map(value, [&](float x) -> float { return ranked[3] + ranked[gradient.size - 1] * x; });
    int* kept = filter(range(gradient.size), [&](int i) -> bool { return value[i] > 0; });
    int* first = take(sort(kept, [&](int i) -> double { return value[i] / 3.0; }), gradient.size / 3);
    float middle = sort(map(gradient, abs), [&](float x) -> float { return x; })[gradient.size / 2];
    residual = near;
    compressed = concat(order.size, middle, first.size, first, order);
}

void SortsDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, float middle, int32 k, int32 first[k], int32 order[n]);
    require(n == gradient.size);
    int* back = sort(order, [&](int i) -> int { return i; });
    float* at = map(back, order, [&](int a, int b) -> float { return a == b ? middle : b; });
    gradient = scatter(fill(gradient.size, 1.5), back, at);
}
"""

#: Has branches with vectors of every kind in both functions, and vectors at addresses that are no multiple of four.
_BRANCHES = """
param BranchesParams {
    float limit = 0.5 in [0, inf);
}

void BranchesEncode(float* gradient, uint8* compressed, state float* kept, BranchesParams params) {
    float most = reduce(map(gradient, abs), 0.0, max);
    uint2* code;
    float* left;
    uint8 kind;
    if (most > 2 * params.limit) {
        float top = params.limit;
        uint2* three = map(gradient, [&](float x) -> uint2 { return x > top ? 2 : x < -top ? 0 : 1; });
        float total = sum(gradient);
        code = three;
        left = map(gradient, kept, [&](float g, float k) -> float { return g + k * 0.5 + total * 0.001; });
        kind = 200;
    } else {
        code = map(gradient, kept, [&](float g, float k) -> uint2 { return g >= k ? 3 : 0; });
        left = gradient;
        kind = most > params.limit ? 3 : 4;
    }
    float* large = filter(left, [&](float x) -> bool { return abs(x) > params.limit; });
    double scale = sum(map(large, abs)) + 1.0;
    float* sample = take(large, 5);
    kept = left;
    float sent = scale;
    compressed = concat(kind, code, sample.size, sample, sent, large);
}

void BranchesDecode(uint8* compressed, float* gradient, BranchesParams params) {
    extract(compressed, uint8 kind, uint2 code[gradient.size], int32 n, float sample[n], float scale, float* large);
    float bias;
    uint2* chosen;
    float* from;
    if (kind > 100) {
        bias = 0.25;
        chosen = code;
        from = map(code, [&](uint2 c) -> float { return c * scale; });
    } else {
        bias = -1.0;
        chosen = map(code, [&](uint2 c) -> uint2 { return 3 - c; });
        float all = sum(large);
        from = fill(gradient.size, all);
    }
    require(n < 4 || kind != 4);
    gradient = map(chosen, from, [&](uint2 c, float f) -> float { return c + f + sample[c] + bias; });
}
"""

#: Has blocks of every length, values that a block has once, integers and doubles, and blocks within blocks.
_BLOCKS = """
param BlocksParams {
    int32 size = 3 in [1, 1000000];
}

void BlocksEncode(float* gradient, uint8* compressed, state float* drift, BlocksParams params) {
    double* total = reduce_blocks(gradient, 0.25, [&](double a, double b) -> double { return a + b; }, params.size);
    float* peak = reduce_blocks(map(gradient, abs), 0.0, max, params.size);
    float* each = map(total, peak, [&](double t, float p) -> float { return p > 0 ? t / p : 0.0; });
    uint1* high = map(peak, [&](float p) -> uint1 { return p > 1; });
    int* ups = reduce_blocks(map(gradient, [&](float x) -> uint1 { return x > 0; }), 0,
                             [&](int a, int b) -> int { return a + b; }, params.size);
    float* outer = reduce_blocks(each, 0.0, [&](float a, float b) -> float { return a - b; }, 10);
    (uint4* code, drift) = map(gradient, drift, spread(each, params.size), spread(peak, params.size),
        [&](float g, float d, float e, float p) -> (uint4, float) {
            return p > 0 ? 7 + 7 * (g / p) + random<float>(0, 1) : 0.0, d * 0.5 + (g - e);
        });
    compressed = concat(high, ups, outer, code, each);
}

void BlocksDecode(uint8* compressed, float* gradient, BlocksParams params) {
    int n = blocks(gradient.size, params.size);
    extract(compressed, uint1 high[n], int32 ups[n], float outer[blocks(n, 10)], uint4 code[gradient.size],
            float each[n]);
    float* mean = map(each, high, ups, [&](float e, uint1 h, int u) -> float { return h ? e : e + u; });
    gradient = map(code, spread(mean, params.size), spread(high, params.size), [&](uint4 c, float m, uint1 h) -> float {
        return (c - 7) * m + h;
    });
}
"""

#: Has no states, and does not read every element of the gradient.
_SPARSE = """
void SparseEncode(float* gradient, uint8* compressed) {
    int* at = filter(range(gradient.size), [&](int i) -> bool {
        return i % 3 == 0 && random<int, 16, shared>(0, 4) > 0;
    });
    uint1* positive = map(gather(gradient, at), [&](float x) -> uint1 { return x > 0; });
    compressed = concat(at.size, at, positive, gradient[gradient.size], gradient[2 - at.size]);
}

void SparseDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, int32 at[n], uint1 positive[n], float a, float b);
    gradient = scatter(fill(gradient.size, 0.0), at, map(positive, [&](uint1 p) -> float { return p ? 1.0 : -1.0; }));
}
"""

_TEXTS = {"sorts": _SORTS, "branches": _BRANCHES, "blocks": _BLOCKS, "sparse": _SPARSE}
VARIANTS["blocks"] = [{"size": size} for size in (1, 3, 64, 1024, 5000, 1000000)]
VARIANTS["branches"] = [{"limit": limit} for limit in (0.5, 3.0, 5.0)]
VARIANTS["narrow"] = [{}, {"flip": True, "block": 1}, {"bias": 127, "most": 65535, "block": 5000}]
VARIANTS["selections"] = [{}, {"block": 1}, {"block": 5000, "count": 64}, {"block": 3000, "count": 900}]
VARIANTS["elements"] = [{}, {"block": 1, "middle": 0}, {"block": 5000}]
VARIANTS["widths"] = [{}, {"bits": 1, "block": 100, "most": 5}, {"bits": 7}]
#: Programs from the tests of the C++ emitter.
_FILES = ["narrow", "widths", "tables", "selections", "transforms", "passes", "prefixes", "elements", "memories"]
NAMES = [*BUILTIN, *EXAMPLES, *_TEXTS, *_FILES]


@cache
def program(name: str) -> ir.Program:
    if name in _TEXTS:
        return compile_text(_TEXTS[name])
    if name in _FILES:
        return compile_file(Path(__file__).parents[1] / "cpu" / "programs" / f"{name}.cll")
    return compiled(name)


def gradients(count: int) -> Iterator[NDArray[np.float32]]:
    """Gradients of every kind that a codec may treat in a special way."""
    random = np.random.default_rng(count)
    yield random.standard_normal(count).astype(np.float32)
    yield np.zeros(count, np.float32)
    yield np.full(count, -0.7, np.float32)
    yield (random.standard_normal(count) * 1e-40).astype(np.float32)
    yield (random.standard_normal(count) * 5e37).astype(np.float32)
    for bad in (np.nan, -np.inf):
        values = random.standard_normal(count).astype(np.float32)
        values[count // 2 if bad < 0 else -1] = bad
        yield values
    yield np.where(random.random(count) < 0.5, -0.0, 0.0).astype(np.float32)
    yield random.integers(-2, 3, count).astype(np.float32)
