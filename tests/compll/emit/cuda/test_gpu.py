# SPDX-License-Identifier: Apache-2.0
"""Generated kernels on a GPU give the interpreter's bytes. `make test-gpu` runs this, and fails without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hipress.compll import Interpreter
from tests.cases import each
from tests.compll.emit.cuda import compare
from tests.compll.emit.cuda.build import starting_library
from tests.compll.emit.cuda.device import DeviceMemory, Runtime, missing, require_gpu
from tests.compll.emit.cuda.programs import NAMES, SIZES, VARIANTS, program
from tests.compll.emit.cuda.table import Call, CudaCodec

LARGE = 3_000_001


@dataclass(frozen=True)
class Gpu:
    library: Callable[[str], Path]
    memory: DeviceMemory


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Gpu:
    require_gpu(missing())
    directory = tmp_path_factory.mktemp("cuda")
    return Gpu(cache(lambda name: starting_library([program(name)], directory)), DeviceMemory(Runtime()))


@each("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_bytes_states_and_decoded_values(gpu: Gpu, name: str, size: int) -> None:
    for params in VARIANTS.get(name, [{}]):
        compare.same_steps(name, gpu.library(name), gpu.memory, size, params)


@each("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_sums_of_messages(gpu: Gpu, name: str, size: int) -> None:
    compare.same_sums(name, gpu.library(name), gpu.memory, size)


@pytest.mark.parametrize("name", NAMES)
def test_many_thread_blocks(gpu: Gpu, name: str) -> None:
    """The gradient needs more thread blocks than a GPU runs at once, and is encoded several times, because only then
    races show."""
    meaning, codec = Interpreter(program(name)), CudaCodec(gpu.library(name), program(name), gpu.memory, {})
    gradient = np.random.default_rng(4).standard_normal(LARGE).astype(np.float32)
    state, expected_state = codec.new_state(LARGE), meaning.new_state(LARGE)
    expected = meaning.encode(gradient, expected_state)
    for _ in range(5):
        state = codec.new_state(LARGE)
        assert codec.encode(gradient, state, Call()) == expected
        for key, values in expected_state.items():
            assert np.array_equal(compare.bits(state[key]), compare.bits(values))
    decoded, wanted = np.ones(LARGE, np.float32), np.ones(LARGE, np.float32)
    codec.decode_into(expected, decoded, accumulate=True)
    meaning.decode_into(expected, wanted, accumulate=True)
    assert np.array_equal(compare.bits(decoded), compare.bits(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_states_are_optional(gpu: Gpu, name: str) -> None:
    compare.same_without_states(name, gpu.library(name), gpu.memory)


@pytest.mark.parametrize("name", NAMES)
def test_malformed_payloads_are_refused(gpu: Gpu, name: str) -> None:
    compare.same_refusals(name, gpu.library(name), gpu.memory)


@pytest.mark.parametrize("name", NAMES)
def test_no_elements(gpu: Gpu, name: str) -> None:
    compare.nothing_of_nothing(name, gpu.library(name), gpu.memory)
