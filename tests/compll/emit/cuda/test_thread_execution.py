# SPDX-License-Identifier: Apache-2.0
"""Generated kernels that run on the processor thread by thread give the interpreter's bytes: no barrier is missing.

core/ops/cuda/execution/thread.h says how. The codecs are those whose kernels share memory among threads in different
ways; test_host_execution.py has all codecs, more sizes and more gradients.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hipress.compll import Interpreter
from tests.compll.emit.cuda import compare
from tests.compll.emit.cuda.build import ROOT, THREAD_FLAGS, emit, host_library
from tests.compll.emit.cuda.programs import program
from tests.compll.emit.cuda.table import Call, CudaCodec, Memory

NAMES = ["int8", "dgc", "graddrop", "u8bit", "adacomp", "threelc", "sorts", "blocks", "transforms", "prefixes"]


def _same(name: str, library: Path, size: int) -> None:
    meaning, codec = Interpreter(program(name)), CudaCodec(library, program(name), Memory(), {})
    state, expected_state = codec.new_state(size) if meaning.keeps_states else None, meaning.new_state(size)
    for step in range(2):
        call = Call(seed=3, step=step, tensor=5, first_element=1025, scale=0.5)
        gradient = np.random.default_rng([step, size]).standard_normal(size).astype(np.float32)
        message = codec.encode(gradient, state, call)
        assert message == meaning.encode(gradient, expected_state, **vars(call))
        for key, values in expected_state.items():
            assert state is not None
            assert np.array_equal(compare.bits(state[key]), compare.bits(values)), key
        decoded, wanted = np.ones(size, np.float32), np.ones(size, np.float32)
        codec.decode_into(message, decoded, accumulate=True)
        meaning.decode_into(message, wanted, accumulate=True)
        assert np.array_equal(compare.bits(decoded), compare.bits(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_bytes_states_and_decoded_values(tmp_path: Path, name: str) -> None:
    library = host_library(program(name), tmp_path, THREAD_FLAGS)
    for size in (257, 5000):
        _same(name, library, size)


@pytest.mark.slow
def test_a_missing_barrier_is_found(tmp_path: Path) -> None:
    """A tile's codes are packed from shared memory before all threads have written them."""
    source = emit(program("int4"), tmp_path)
    text = source.read_text()
    without = re.sub(r"block\.sync\(\);(\s*cuda::packTile\()", r"\1", text)
    assert without != text
    source.write_text(without)
    library = tmp_path / "without.so"
    subprocess.run(["c++", *THREAD_FLAGS, f"-I{ROOT}", "-x", "c++", str(source), "-o", str(library)], check=True)
    with pytest.raises(AssertionError):
        _same("int4", library, 5000)
