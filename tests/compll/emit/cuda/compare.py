# SPDX-License-Identifier: Apache-2.0
"""Compares a generated codec with the interpreter, which defines its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress.compll import Interpreter
from hipress.errors import CorruptPayload
from tests.compll.emit.cuda.programs import gradients, program
from tests.compll.emit.cuda.table import Call, CudaCodec, Memory, Refused

STEPS = 3


def bits(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """The bits of the values; every NaN gets the same bits."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def same_steps(name: str, library: Path, memory: Memory, size: int, params: dict[str, Any]) -> None:
    """Checks messages, states and decoded values over several steps, with gradients of every kind."""
    meaning = Interpreter(program(name), **params)
    codec = CudaCodec(library, program(name), memory, params)
    assert codec.max_encoded_bytes(size) == meaning.max_encoded_bytes(size)
    for number, gradient in enumerate(gradients(size)):
        state, expected_state = codec.new_state(size) if meaning.keeps_states else None, meaning.new_state(size)
        for step in range(STEPS):
            what = f"{name}{params}, {size} elements, gradient {number}, step {step}"
            call = Call(seed=3, step=step, tensor=5, first_element=1024 + size % 4, scale=0.5)
            message, expected = (
                codec.encode(gradient, state, call),
                meaning.encode(gradient, expected_state, **vars(call)),
            )
            assert message == expected, what
            for key, values in expected_state.items():
                assert state is not None
                assert np.array_equal(bits(state[key]), bits(values)), f"{what}: {key}"
            for accumulate in (False, True):
                decoded, wanted = np.ones(size, np.float32), np.ones(size, np.float32)
                codec.decode_into(message, decoded, accumulate=accumulate, spare=5 * step)
                meaning.decode_into(message, wanted, accumulate=accumulate)
                assert np.array_equal(bits(decoded), bits(wanted)), f"{what}: decoded"


def same_without_states(name: str, library: Path, memory: Memory) -> None:
    """Checks that a caller without states gets the messages of states that are zeros."""
    meaning, codec = Interpreter(program(name)), CudaCodec(library, program(name), memory, {})
    gradient = np.random.default_rng(2).standard_normal(5000).astype(np.float32)
    assert codec.encode(gradient, None, Call()) == meaning.encode(gradient)


def same_refusals(name: str, library: Path, memory: Memory) -> None:
    """Checks that the codec refuses the cut, lengthened and changed payloads that the interpreter refuses, and leaves
    the output unchanged."""
    meaning, codec = Interpreter(program(name)), CudaCodec(library, program(name), memory, {})
    random, refused = np.random.default_rng(1), 0
    for size in (1, 13, 3000):
        message = meaning.encode(random.standard_normal(size).astype(np.float32))
        payloads = [message[:cut] for cut in (1, len(message) // 2, len(message) - 1)]
        payloads += [message + b"\0", message + bytes(4), b"\xff" * len(message)]
        for _ in range(60):
            changed = bytearray(message)
            at = min(int(random.exponential(6)), len(message) - 1)
            changed[at if random.random() < 0.5 else -1 - at] ^= 1 << int(random.integers(8))
            payloads.append(bytes(changed))
        for payload in filter(None, payloads):
            wanted, decoded = np.ones(size, np.float32), np.ones(size, np.float32)
            try:
                meaning.decode_into(payload, wanted, accumulate=True)
            except CorruptPayload:
                refused += 1
                with pytest.raises(Refused):
                    codec.decode_into(payload, decoded, accumulate=True)
            else:
                codec.decode_into(payload, decoded, accumulate=True)
            assert np.array_equal(bits(decoded), bits(wanted)), f"{name}, {size} elements, {payload[:40]!r}"
    assert refused


def nothing_of_nothing(name: str, library: Path, memory: Memory) -> None:
    codec = CudaCodec(library, program(name), memory, {})
    empty = np.empty(0, np.float32)
    assert codec.encode(empty, codec.new_state(0), Call()) == b""
    codec.decode_into(b"", empty)
    with pytest.raises(Refused):
        codec.decode_into(b"1", empty)
