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

STEPS = 2
#: The numbers of elements that are compared with gradients of every kind; the others with those of FEW: normal values,
#: a NaN at the end, and ties.
EVERY_KIND = (1, 7, 257, 4097)
FEW = (0, 5, 8)


def bits(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """The bits of the values; every NaN gets the same bits."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def same_message(found: bytes, expected: bytes) -> bool:
    """Whether two messages are equal but for the bits of float NaNs: processors and GPUs make different ones."""
    if len(found) != len(expected):
        return False
    arrays = [np.frombuffer(each, np.uint8) for each in (found, expected)]
    end = 0
    for place in np.flatnonzero(arrays[0] != arrays[1]).tolist():
        if place < end:
            continue
        for start in range(max(end, place - 3), place + 1):
            words = [each[start : start + 4] for each in (found, expected)]
            if all(len(word) == 4 and np.isnan(np.frombuffer(word, np.float32)[0]) for word in words):
                end = start + 4
                break
        else:
            return False
    return True


def same_steps(name: str, library: Path, memory: Memory, size: int, params: dict[str, Any]) -> None:
    """Checks messages, states and decoded values over several steps, with gradients of every kind or of FEW."""
    meaning = Interpreter(program(name), **params)
    codec = CudaCodec(library, program(name), memory, params)
    assert codec.max_encoded_bytes(size) == meaning.max_encoded_bytes(size)
    for number, gradient in enumerate(gradients(size)):
        if size not in EVERY_KIND and number not in FEW:
            continue
        state, expected_state = codec.new_state(size) if meaning.keeps_states else None, meaning.new_state(size)
        for step in range(STEPS):
            what = f"{name}{params}, {size} elements, gradient {number}, step {step}"
            call = Call(seed=3, step=step, tensor=5, first_element=1024 + size % 4, scale=0.5)
            message, expected = (
                codec.encode(gradient, state, call),
                meaning.encode(gradient, expected_state, **vars(call)),
            )
            assert same_message(message, expected), what
            for key, values in expected_state.items():
                assert state is not None
                assert np.array_equal(bits(state[key]), bits(values)), f"{what}: {key}"
            for accumulate in (False, True):
                decoded, wanted = np.ones(size, np.float32), np.ones(size, np.float32)
                codec.decode_into(message, decoded, accumulate=accumulate, spare=5 * step)
                meaning.decode_into(message, wanted, accumulate=accumulate)
                assert np.array_equal(bits(decoded), bits(wanted)), f"{what}: decoded"


#: Numbers of contributions around the number that one kernel adds; for sizes not in EVERY_KIND only the last two.
RANKS = [1, 2, 32, 70, 3, 33]
#: Different messages of one sum, which repeat. Their number does not divide the 32 contributions that one kernel adds.
DIFFERENT = 7


def same_sums(name: str, library: Path, memory: Memory, size: int) -> bool:
    """Checks sums of messages and values in one kernel: those of one decode after the other. False: there is none."""
    meaning, codec = Interpreter(program(name)), CudaCodec(library, program(name), memory, {})
    if not codec.sums:
        return False
    random = np.random.default_rng(size)
    gradients_ = [random.standard_normal(size).astype(np.float32) for _ in range(DIFFERENT)]
    messages = [meaning.encode(each, step=number, tensor=number) for number, each in enumerate(gradients_)]
    for ranks in RANKS if size in EVERY_KIND else RANKS[-2:]:
        parts: list[Any] = [messages[number % DIFFERENT] for number in range(ranks)]
        if ranks > 1:  # an owner's values are not encoded, and one rank's gradient was not finite
            parts[ranks // 2] = gradients_[ranks // 2 % DIFFERENT]
        if ranks == 3:
            parts[0] = b""
        wanted = np.zeros(size, np.float32)
        for number, part in enumerate(parts):
            if isinstance(part, bytes):
                meaning.decode_into(part, wanted, accumulate=number > 0)
            else:
                wanted = wanted + part if number else part.copy()
        found, errors = codec.sum(parts, size, factor=0.3)
        assert not any(errors)
        assert np.array_equal(bits(found), bits(wanted * np.float32(0.3))), f"{name}, {size} elements, {ranks} ranks"
    _, errors = codec.sum([parts[0], parts[0] + b"\1\1\1\1\1", gradients_[0]], size)
    assert [bool(error) for error in errors] == [False, True, False]
    return True


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
