# SPDX-License-Identifier: Apache-2.0
"""A codec takes over all of its new states or none, and gives the same result with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.cases import each
from tests.core.codec_reference import same_bits

COUNT = 10_001
THREADS = [1, 2, 5]
NAMES = ("momentum", "residual")


def values(seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(COUNT) * 10).astype(np.float32)


def some_states(codec: _core.Codec) -> dict[str, np.ndarray]:
    return {name: values(seed) for seed, name in enumerate(codec.states, 1)}


@pytest.fixture(scope="module")
def codec(momentum_codec: str) -> _core.Codec:
    return _core.create_codec(momentum_codec)


@each("threads", THREADS)
def test_encoding_replaces_the_states(codec: _core.Codec, threads: int) -> None:
    states = some_states(codec)
    momentum = np.float32(0.5) * states["momentum"] + np.float32(2) * values()
    total = momentum + states["residual"]
    sent = np.clip(np.rint(total), -127, 127)
    payload = codec.encode(values(), states, scale=2.0, threads=threads)
    assert payload == sent.astype(np.int8).tobytes()
    assert same_bits(states["momentum"], momentum)
    assert same_bits(states["residual"], total - sent)


@each("threads", THREADS)
def test_decoding_with_threads_gives_the_same(codec: _core.Codec, threads: int) -> None:
    payload = codec.encode(values())
    assert same_bits(codec.decode(payload, COUNT, threads=threads), codec.decode(payload, COUNT))
    output = values(1)
    codec.decode_into(payload, output, accumulate=True, threads=threads)
    assert same_bits(output, values(1) + codec.decode(payload, COUNT))


@each("threads", THREADS)
@each("name", ["momentum_codec", "onebit", "tbq", "graddrop", "dgc", "int8(error_feedback=true)", "int4"])
@each("at", [0, COUNT - 1])
@each("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_leaves_all_states(
    request: pytest.FixtureRequest, name: str, at: int, bad: float, threads: int
) -> None:
    codec = _core.create_codec(request.getfixturevalue(name) if name == "momentum_codec" else name)
    # A codec that sends single values may send the value that a bad old state spoilt, and keep a zero in its place.
    sends_single_values = name in ("graddrop", "dgc")
    for poisoned in ("input",) if sends_single_values else ("input", *codec.states):
        states = some_states(codec)
        gradient = values()
        (gradient if poisoned == "input" else states[poisoned])[at] = bad
        before = {name: array.copy() for name, array in states.items()}
        assert codec.encode(gradient, states, threads=threads) == b"", poisoned
        assert all(same_bits(states[name], before[name]) for name in states), poisoned
        read = list(before.values())
        written = [np.empty_like(array) for array in read]
        output = np.empty(codec.max_encoded_bytes(COUNT), np.uint8)
        assert codec.encode_into(gradient, read, written, output, threads=threads) == 0, poisoned
        assert all(same_bits(before[name], states[name]) for name in states), poisoned


def test_without_states_encode_sees_zeros(codec: _core.Codec) -> None:
    zeros = {name: np.zeros(COUNT, np.float32) for name in NAMES}
    assert codec.encode(values()) == codec.encode(values(), zeros)
    without = _core.create_codec(codec.name + "(error_feedback=false)")
    assert without.encode(values()) == codec.encode(values())


def test_encode_into_reads_one_set_of_states_and_writes_another(codec: _core.Codec) -> None:
    states = some_states(codec)
    before = [states[name].copy() for name in NAMES]
    after = [np.empty(COUNT, np.float32) for _ in NAMES]
    output = np.empty(codec.max_encoded_bytes(COUNT), np.uint8)
    size = codec.encode_into(values(), before, after, output, scale=0.5)
    assert all(same_bits(before[i], states[name]) for i, name in enumerate(NAMES))
    assert output[:size].tobytes() == codec.encode(values(), states, scale=0.5)
    assert all(same_bits(after[i], states[name]) for i, name in enumerate(NAMES))


def test_the_aggregates_codec_reads_what_this_one_writes(codec: _core.Codec) -> None:
    aggregate = codec.for_aggregate()
    assert aggregate.states == ("residual",)
    assert aggregate.id == codec.id
    assert (
        aggregate.decode(codec.encode(values()), COUNT).tolist() == codec.decode(codec.encode(values()), COUNT).tolist()
    )
    onebit = _core.create_codec("onebit")
    assert onebit.for_aggregate().signature == onebit.signature


def test_wrong_states_are_refused(codec: _core.Codec) -> None:
    gradient, zeros = np.ones(10, np.float32), [np.zeros(10, np.float32) for _ in range(5)]
    output = np.empty(10, np.uint8)
    with pytest.raises(InvalidArgument, match=r"\[residual\] were passed.*keeps \[momentum, residual\]"):
        codec.encode(gradient, {"residual": zeros[0]})
    with pytest.raises(InvalidArgument, match=r"\[memory, momentum, residual\] were passed"):
        codec.encode(gradient, {"residual": zeros[0], "momentum": zeros[1], "memory": zeros[2]})
    with pytest.raises(InvalidArgument, match="9 elements, the input 10"):
        codec.encode(gradient, {"residual": zeros[0], "momentum": np.zeros(9, np.float32)})
    with pytest.raises(InvalidArgument, match=r"1 state vectors were passed.*keeps 2"):
        codec.encode_into(gradient, zeros[:1], zeros[1:3], output)
    with pytest.raises(InvalidArgument, match="0 state vectors were passed"):
        codec.encode_into(gradient, zeros[:2], [], output)
    with pytest.raises(InvalidArgument, match="overlaps"):
        codec.encode_into(gradient, zeros[:2], [zeros[2], zeros[0]], output)
    with pytest.raises(InvalidArgument, match="room for 9 bytes"):
        codec.encode_into(gradient, zeros[:2], zeros[2:4], output[:9])
    with pytest.raises(InvalidArgument, match="threads must be in 1"):
        codec.encode(gradient, threads=0)
    with pytest.raises(TypeError):
        codec.encode(gradient, {"residual": np.zeros(10), "momentum": np.zeros(10)})
