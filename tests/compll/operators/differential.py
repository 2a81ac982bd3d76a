# SPDX-License-Identifier: Apache-2.0
"""Compares a program on every target with the interpreter: messages, states and decoded values must have the same
bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import hipress
from hipress import _core
from hipress.compll import Interpreter, compile_text
from tests.compll.build import compilers
from tests.compll.emit.cuda.build import host_library
from tests.compll.emit.cuda.compare import bits
from tests.compll.emit.cuda.programs import gradients
from tests.compll.emit.cuda.table import Call, CudaCodec, Memory

SIZES = (1, 7, 256, 4097)


def same_on_all_targets(text: str, folder: Path, sizes: Iterable[int] = SIZES) -> None:
    """Compiles the program and its CUDA kernels for this processor, and compares them; writes files to `folder`."""
    program = compile_text(text)
    reference = Interpreter(program)
    source = folder / f"{program.name}.cll"
    source.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPRESS_CACHE", str(folder / "cache"))
        patch.setenv("CXX", str(compilers.quick(folder)))
        hipress.load_codec(source)
    cpu = _core.create_codec(program.name)
    cuda = CudaCodec(host_library(program, folder), program, Memory(), {})
    for size in sizes:
        assert cpu.max_encoded_bytes(size) == cuda.max_encoded_bytes(size) == reference.max_encoded_bytes(size)
        for number, gradient in enumerate(gradients(size)):
            states = [reference.new_state(size) for _ in range(3)]
            for step in range(2):
                where = f"{program.name}, {size} elements, gradient {number}, step {step}"
                call = Call(seed=3, step=step, tensor=5, first_element=2, scale=0.5)
                expected = reference.encode(gradient, states[0], **vars(call))
                assert cpu.encode(gradient, states[1], **vars(call)) == expected, f"{where}: cpu"
                assert cuda.encode(gradient, states[2], call) == expected, f"{where}: cuda"
                for name, values in states[0].items():
                    assert all(np.array_equal(bits(s[name]), bits(values)) for s in states), f"{where}: {name}"
                for accumulate in (False, True):
                    wanted, *outputs = (np.ones(size, np.float32) for _ in range(3))
                    reference.decode_into(expected, wanted, accumulate=accumulate)
                    cpu.decode_into(expected, outputs[0], accumulate=accumulate)
                    cuda.decode_into(expected, outputs[1], accumulate=accumulate)
                    assert all(np.array_equal(bits(o), bits(wanted)) for o in outputs), f"{where}: decoded"
