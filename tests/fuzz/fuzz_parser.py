# SPDX-License-Identifier: Apache-2.0
"""Fuzzes CompLL's compiler, interpreter and emitter, guided by coverage (atheris). The arguments are libFuzzer's:

python -m tests.fuzz.fuzz_parser -runs=1000 CORPUS compll/algorithms tests/compll/check/wrong

The compiler must refuse a text with CompileError, or make a program from it. The interpreter must run every program,
and the emitter must write it as C++, without any error but HipressError.
"""

from __future__ import annotations

import contextlib
import random
import resource
import sys
import warnings

import atheris
import numpy as np

with atheris.instrument_imports(include=["hipress.compll"]):
    from hipress.compll import CompileError, Interpreter, compile_text
    from hipress.compll.emit.cpu.codec import CPU
    from hipress.compll.emit.origin import Origin
    from hipress.compll.reference.instantiate import example
from hipress.errors import HipressError
from tests.fuzz.change_program import change_program

GRADIENT = np.array([0.5, -2.0, 0.0, 1e-3, 3e38, -0.25, 7.0, 1.0, -1e-40], np.float32)
PAYLOADS = (b"\0", b"\1\0\0\0" * 5, b"\xff" * 24)
MAX_MEMORY = 4 << 30


def run_one(data: bytes) -> None:
    text = data.decode("utf-8", errors="surrogateescape")
    try:
        program = compile_text(text, "fuzzed.cll")
    except CompileError as error:
        if not error.message or error.line < 1:
            raise AssertionError("an error without a text or a place") from error
        return
    CPU.codec(program, Origin("fuzzed.cll", text.encode("utf-8", errors="replace").decode()))
    # A program may make vectors of 2^31 elements; running out of memory then is no error of the interpreter.
    with contextlib.suppress(HipressError, MemoryError):
        interpret(Interpreter(program, **{param.name: example(param) for param in program.params}))


def interpret(codec: Interpreter) -> None:
    """Encodes and decodes. An error of the program is a HipressError."""
    for payload in PAYLOADS:
        try:
            codec.decode(payload, len(GRADIENT))
        except HipressError:
            continue
    for count in (0, 1, len(GRADIENT)):
        message = codec.encode(GRADIENT[:count], codec.new_state(count), seed=1)
        assert len(message) <= codec.max_encoded_bytes(count)
        assert len(codec.decode(message, count)) == count


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Changes programs most of the time, and otherwise single bytes, so that every text can be reached."""
    dice = random.Random(seed)
    if dice.random() < 0.1:
        return bytes(atheris.Mutate(data, max_size))
    return change_program(data.decode("utf-8", errors="replace"), dice).encode()[:max_size]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore")
    atheris.Setup(
        [sys.argv[0], "-max_len=4096", "-timeout=20", "-rss_limit_mb=0", *sys.argv[1:]],
        run_one,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
