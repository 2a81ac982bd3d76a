# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs and the examples compute their definitions in the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hipress.compll import CompileError, Interpreter, compile_text
from hipress.compll.check.library import builtin_files, read
from hipress.compll.frontend.stats import count
from hipress.errors import CorruptPayload
from tests.compll.programs import BIASED, BUILTIN, EXAMPLES, FEEDBACK, SIZES, codec, floats, normal

Floats = NDArray[np.float32]
LARGEST = float(np.finfo(np.float32).max)


def held(state: dict[str, Floats]) -> Floats:
    return state["residual"]


def test_all_are_there() -> None:
    assert list(builtin_files()) == BUILTIN


@pytest.mark.parametrize("name", [*BUILTIN, *EXAMPLES])
@pytest.mark.parametrize("size", SIZES)
def test_bounds_and_repeatability(name: str, size: int) -> None:
    run, again = codec(name), codec(name)
    state, other = run.new_state(size), again.new_state(size)
    for step in range(3):
        g = normal(size, step)
        message = run.encode(g, state, seed=3, step=step)
        assert message == again.encode(g, other, seed=3, step=step)
        assert len(message) <= run.max_encoded_bytes(size)
        decoded = run.decode(message, size)
        assert np.isfinite(decoded).all()
        added = np.ones(size, np.float32)
        run.decode_into(message, added, accumulate=True)
        assert np.array_equal(added, 1 + decoded)
    assert run.max_encoded_bytes(0) == 0


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("size", [1, 7, 8, 1025, 5000])
def test_nothing_is_lost(name: str, size: int) -> None:
    run = codec(name, **({"threshold": 0.7} if name == "tbq" else FEEDBACK.get(name, {})))
    state = run.new_state(size)
    for step in range(20):
        g, old = normal(size, step), held(state).astype(np.float64)
        came = g.astype(np.float64)
        if name == "dgc":
            came = np.float64(np.float32(0.9) * state["velocity"]) + g
        decoded = run.decode(run.encode(g, state, step=step), size)
        scale = np.abs(came) + np.abs(old) + np.abs(decoded)
        assert (np.abs(came + old - decoded - held(state)) <= 1e-6 * scale).all()


@pytest.mark.parametrize("name", [*BUILTIN, *EXAMPLES])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite(name: str, bad: float) -> None:
    run = codec(name)
    state = run.new_state(20)
    run.encode(normal(20), state)
    before = {key: value.copy() for key, value in state.items()}
    g = normal(20)
    g[7] = bad
    message = run.encode(g, state)
    assert np.isnan(run.decode(message, 20)).all()
    for key, value in before.items():
        assert np.array_equal(state[key], value)


@pytest.mark.parametrize("name", ["onebit", "tbq", "dgc", "graddrop"])
def test_a_state_that_overflows_is_not_kept(name: str) -> None:
    run = codec(name)
    state = run.new_state(9)
    held(state)[:] = LARGEST
    message = run.encode(np.full(9, LARGEST, np.float32), state)
    assert not np.isfinite(run.decode(message, 9)).all()
    assert (held(state) == LARGEST).all()


def test_tbq_codes() -> None:
    run = codec("tbq", threshold=2)
    state = run.new_state(5)
    message = run.encode(floats(2, -2, 1.5, 9, -1), state)
    assert message == bytes([2 | 0 << 2 | 1 << 4 | 2 << 6, 1])
    assert run.decode(message, 5).tolist() == [2, -2, 0, 2, 0]
    assert held(state).tolist() == [0, 0, 1.5, 7, -1]


@pytest.mark.slow
@pytest.mark.parametrize("bitwidth", [1, 2, 4, 8])
def test_terngrad_is_unbiased(bitwidth: int) -> None:
    run, g = codec("terngrad", bitwidth=bitwidth), normal(37, bitwidth)
    decoded = np.array([run.decode(run.encode(g, seed=seed), 37) for seed in range(1000)], np.float64)
    error = decoded.std(axis=0) / math.sqrt(1000)
    # The bound is three standard errors for the tensor as a whole, and four for the worst of its 37 values.
    assert (np.abs(decoded.mean(axis=0) - g) <= 4 * error + 1e-6).all()
    assert abs(decoded.mean() - g.mean()) <= 3 * decoded.mean(axis=1).std() / math.sqrt(1000) + 1e-6
    inside = np.abs(decoded.mean(axis=0) - g) <= 3 * error + 1e-6
    assert inside.mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("bitwidth", [1, 2, 4, 8])
@settings(deadline=None)
@given(
    g=arrays(np.float32, st.integers(1, 40), elements=st.floats(-LARGEST, LARGEST, width=32, allow_subnormal=True)),
    stochastic=st.booleans(),
)
@example(g=np.array([3.1962e-41, 0.0], np.float32), stochastic=False)
def test_terngrad_error(bitwidth: int, g: Floats, stochastic: bool) -> None:
    run = codec("terngrad", bitwidth=bitwidth, stochastic=stochastic)
    decoded = run.decode(run.encode(g), g.size).astype(np.float64)
    gap = (float(g.max()) - float(g.min())) / ((1 << bitwidth) - 1)
    # Near denormals the gap itself is rounded, and the rounding error counts once for each level.
    rounding = np.abs(g.astype(np.float64)).max() * 1e-6 + ((1 << bitwidth) + 1) * 2.0**-149
    allowed = gap * (1 if stochastic else 0.5) + rounding
    assert (np.abs(decoded - g) <= allowed).all()


@pytest.mark.parametrize("name", ["dgc", "graddrop"])
@pytest.mark.parametrize(("size", "ratio"), [(10, 0.5), (10000, 0.001), (20000, 0.01), (300000, 0.001)])
def test_sparse_codecs_send_the_largest(name: str, size: int, ratio: float) -> None:
    run, limit = codec(name, ratio=ratio), math.ceil(size * ratio)
    state = run.new_state(size)
    for step in range(3):
        g = normal(size, step)
        value = g + held(state) if name == "graddrop" else np.float32(0.9) * state["velocity"] + g + held(state)
        message = run.encode(g, state, step=step)
        sent = np.flatnonzero(run.decode(message, size))
        assert len(message) == 4 + 8 * len(sent) <= run.max_encoded_bytes(size) == 4 + 8 * limit
        assert math.ceil(0.7 * limit) <= len(sent) <= limit
        if len(sent) == limit:
            assert np.abs(value[sent]).min() >= np.sort(np.abs(value))[-limit] * (1 - 1e-6)
        assert (held(state)[sent] == 0).all()
        if name == "dgc":
            assert (state["velocity"][sent] == 0).all()


@pytest.mark.parametrize("name", ["dgc", "graddrop"])
def test_sparse_codecs_on_constants_and_zeros(name: str) -> None:
    run = codec(name, ratio=0.1)
    assert np.flatnonzero(run.decode(run.encode(np.full(100, 2, np.float32)), 100)).tolist() == list(range(10))
    assert run.encode(np.zeros(100, np.float32)) == bytes(4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BUILTIN, *EXAMPLES])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_wrong_messages_are_refused_or_decoded(name: str, data: st.DataObject) -> None:
    run, size = codec(name), data.draw(st.integers(0, 30))
    message = bytearray(run.encode(normal(size, data.draw(st.integers(0, 9)))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(message)))
        message[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    output = np.full(size, 7, np.float32)
    try:
        run.decode_into(bytes(message), output)
    except CorruptPayload:
        assert (output == 7).all()


def test_adacomp_sends_each_bins_largest() -> None:
    run, g = codec("adacomp", bin=100), normal(1000)
    decoded = run.decode(run.encode(g), 1000)
    for bin_ in range(10):
        piece = slice(100 * bin_, 100 * bin_ + 100)
        assert decoded[piece][np.abs(g[piece]).argmax()] != 0


def test_blockquant4_error() -> None:
    run, g = codec("blockquant4"), normal(1000)
    steps = np.repeat([np.abs(g[i : i + 128]).max() / 7 for i in range(0, 1000, 128)], 128)[:1000]
    assert (np.abs(run.decode(run.encode(g), 1000) - g) <= steps * 0.50001).all()


def test_natural_dithering_is_right_on_average_and_sends_powers_of_two_of_the_length() -> None:
    run, g = codec("natural_dithering", block=100), normal(100)
    length = np.float32(np.linalg.norm(g.astype(np.float64)))
    decoded = np.array([run.decode(run.encode(g, seed=seed), 100) for seed in range(2000)])
    parts = np.abs(decoded / length)
    powers = np.log2(parts[parts > 0])
    np.testing.assert_allclose(powers, powers.round(), atol=1e-5)
    assert powers.min() > -6.5
    # The standard deviation between two powers is about a third of the value, and 1/128 below 1/64. 2000 draws, five
    # standard deviations.
    np.testing.assert_allclose(decoded.mean(axis=0), g, atol=5 * float(length) / 3 / 2 / np.sqrt(2000))


def test_inceptionn_sends_each_value_in_as_many_bits_as_it_needs() -> None:
    run, g = codec("inceptionn", bound=4), floats(0.03, 1, -7.99, 8, -100, 5000)
    states = run.new_state(6)
    message = run.encode(g, states)
    assert len(message) == 8 + 2 * 3 + 2 + 2
    assert run.decode(message, 6).tolist() == [0, 1, -7.9375, 8, -100, 32767 / 16]
    np.testing.assert_array_equal(run.decode(message, 6) + states["residual"], g)
    with pytest.raises(CorruptPayload, match="the requirement in line"):
        run.decode(message[:-1] + b"\x00", 6)


@pytest.mark.parametrize("params", [{"bits": 3}, {"bits": 6, "euclidean": True}])
def test_linear_dithering_is_right_on_average(params: dict[str, int]) -> None:
    run, g = codec("linear_dithering", block=100, **params), normal(100)
    message = run.encode(g)
    assert len(message) == 4 + -(-100 * params["bits"] // 8)
    step = np.frombuffer(message[:4], "<f4")[0]
    decoded = np.array([run.decode(run.encode(g, seed=seed), 100) for seed in range(1000)], np.float64)
    assert (np.abs(decoded - g) <= step * 1.0001).all()
    # A value between two levels is off by half a step at most: 1000 draws, five standard deviations.
    np.testing.assert_allclose(decoded.mean(axis=0), g, atol=5 * float(step) / 2 / math.sqrt(1000))


def test_demo_sends_the_largest_frequencies_and_keeps_the_rest_of_the_momentum() -> None:
    run, size = codec("demo", count=5, decay=0.5), 64 * 4 + 10
    states = run.new_state(size)
    k, n = np.meshgrid(np.arange(64), np.arange(64), indexing="ij")
    dct = np.sqrt(2 / 64) * np.cos(np.pi * (2 * n + 1) * k / 128)
    dct[0] /= np.sqrt(2)
    for step in range(3):
        g = normal(size, step)
        value = np.float32(0.5) * states["momentum"] + g
        message = run.encode(g, states)
        assert len(message) == 4 * 25 + -(-25 * 6 // 8) == run.max_encoded_bytes(size)
        frequency = value[:256].astype(np.float64).reshape(4, 64) @ dct.T
        limit = np.sort(np.abs(frequency), axis=1)[:, -5:-4]
        expected = (frequency * (np.abs(frequency) >= limit)) @ dct
        decoded = run.decode(message, size)
        np.testing.assert_allclose(decoded[:256], expected.reshape(-1), atol=1e-5)
        assert np.count_nonzero(decoded[256:]) == 5
        np.testing.assert_allclose(states["momentum"], value - decoded, atol=1e-6)


def test_eden_is_right_on_average_whatever_the_distribution() -> None:
    run, g = codec("eden"), normal(2048) ** 3
    g[5] = 1000
    message = run.encode(g)
    assert len(message) == 4 + 4 * 2 + 1024 == run.max_encoded_bytes(2048)
    decoded = np.array([run.decode(run.encode(g, seed=seed), 2048) for seed in range(400)], np.float64)
    power = (g.astype(np.float64) ** 2).sum()
    # The best 16 levels for a normal distribution leave 1/105 of the power.
    assert ((decoded - g) ** 2).sum(axis=1).max() < 0.012 * power
    assert ((decoded.mean(axis=0) - g) ** 2).sum() < 0.012 * power / 400 * 1.5


def test_sparseloco_sends_the_largest_of_each_chunk() -> None:
    run, g = codec("sparseloco", chunk=100, count=10), normal(250)
    states = run.new_state(250)
    message = run.encode(g, states)
    sent = np.flatnonzero(run.decode(message, 250))
    assert len(message) == 4 * 3 + -(-30 * 12 // 8) + -(-30 * 2 // 8) == run.max_encoded_bytes(250)
    for first in (0, 100, 200):
        largest = first + np.sort(np.argsort(-np.abs(g[first : first + 100]))[:10])
        assert largest.tolist() == sent[(sent >= first) & (sent < first + 100)].tolist()


def test_threelc_packs_five_values_into_a_byte_and_keeps_the_rest() -> None:
    run, g = codec("threelc", sparsity=1.5), floats(1, -1, 0.5, -0.8, 0, 0.76, 0.75)
    states = run.new_state(7)
    message = run.encode(g, states)
    assert len(message) == 4 + 2
    # The codec sends values from 0.75 on, which is half of 1.5.
    np.testing.assert_array_equal(run.decode(message, 7), floats(1.5, -1.5, 0, -1.5, 0, 1.5, 1.5))
    np.testing.assert_array_equal(run.decode(message, 7) + states["residual"], g)


def test_threelc_packs_up_to_fourteen_bytes_of_zeros_into_one() -> None:
    run = codec("threelc")
    zero, one = [0.0] * 5, [1.0, 0, 0, 0, 0]
    for groups, expected in (
        ([one, zero, one], [122, 121, 122]),
        ([one, zero, zero], [122, 243]),
        ([one, *[zero] * 14, one], [122, 255, 122]),
        ([*[zero] * 15, one], [255, 121, 122]),
        ([*[zero] * 30, one, *[zero] * 3], [255, 255, 243, 122, 244]),
        ([one, *[zero] * 2, [0.0, 0]], [122, 243, 4]),
    ):
        g = np.array([x for group in groups for x in group], np.float32)
        message = run.encode(g)
        assert list(message[4:]) == expected
        np.testing.assert_array_equal(run.decode(message, len(g)), g)
        for wrong in (message[:-1], message + b"\x79", message[:4] + b"\xfe" + message[5:], message[:4]):
            with pytest.raises(CorruptPayload):
                run.decode(wrong, len(g))


@pytest.mark.parametrize("name", [name for name in BUILTIN if name not in ("dgc", "onebit", "terngrad")])
def test_a_codec_is_short(name: str) -> None:
    assert len(read(builtin_files()[name]).splitlines()) <= 35


def test_lines_of_code() -> None:
    limits = {"onebit": 30, "tbq": 31, "terngrad": 30, "dgc": 44, "graddrop": 50, "bf16": 12, "int8": 25, "int4": 25}
    for name, path in builtin_files().items():
        stats = count(read(path), name)
        assert stats.logic + stats.functions <= limits.get(name, 35)
        assert stats.integration == 0


SEED = """
void TernGradEncode(float* gradient, uint8* compressed, uint8 bitwidth){
    lambda_func u_greater = [&](float a, float b) -> float{
        if (a>b){
            return a;
        }
        else{
            return b;
        }
    }
    lambda_func u_smaller = [&](float a, float b) -> float{
        if (a < b){
            return a;
        }
        else {
            return b;
        }
    }
    float max = reduce(gradient, -99999, u_greater);
    float min = reduce(gradient, 99999, u_smaller);
    float gap = (max - min) / ( (1<<bitwidth) -1 );
    uint8 tail = gradient.size % ( 1<<bitwidth);
    lambda_func floatToUint = [&](int index) -> uint<bitwidth> {
        float r = (gradient[index] - min) / gap + random<float>(0,1);
        return floor(r);
    }
    uint<bitwidth>* Q = map(range(gradient.size), floatToUint);
    compressed = concat(bitwidth, tail, min, max, Q);
}
"""
SEED_DECODE = """
void TernGradDecode(uint8* compressed, float* gradient, uint8 bitwidth){
    extract(compressed, uint8 width, uint8 tail, float min, float max, uint<bitwidth> Q[gradient.size]);
    require(width == bitwidth);
    float gap = (max - min) / ((1 << bitwidth) - 1);
    gradient = map(Q, [&](uint<bitwidth> q) -> float { return q * gap + min; });
}
"""


def test_the_original_example() -> None:
    with pytest.raises(CompileError, match="this codec has no decode"):
        compile_text(SEED)
    assert compile_text(SEED, complete=False).name == "terngrad"
    run, g = Interpreter(compile_text(SEED + SEED_DECODE), bitwidth=2), normal(1001)
    message = run.encode(g)
    assert len(message) == 10 + 251 == run.max_encoded_bytes(1001)
    assert np.abs(run.decode(message, 1001) - g).max() <= (g.max() - g.min()) / 3 * 1.00001
    assert np.corrcoef(run.decode(message, 1001), g)[0, 1] > 0.7
