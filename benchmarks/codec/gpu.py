# SPDX-License-Identifier: Apache-2.0
"""Measures the generated codecs on a GPU as multiples of a copy of the same tensor within the GPU's memory.

    python -m benchmarks.codec_gpu --size 256M --codec onebit --json FILE

The default size is several times a GPU's cache, so that gradient and states come from its memory.

The codecs have default parameters. The values are normally distributed. Encoding includes error feedback; states pass
from step to step. Decoding adds to a tensor. A row per codec has the columns

    encode_copy_ratio   time of encode divided by the time of the copy: 1 is as fast as copying, 2 takes twice as long
    decode_copy_ratio   the same for decoding and adding
    encode_ms, decode_ms, copy_ms   medians, in milliseconds, from events on the stream
    bytes               payload of the first step
    size_bytes, repeats the tensor's size, and the number of repetitions
    gpu                 its name, as the driver says it

Ratios are medians of pairs: a copy runs directly before each encode and decode. The exit code is 2 without a GPU or
NVRTC.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.report import Row, parse_size, print_table, write_json
from tests.compll.emit.cuda.build import starting_library
from tests.compll.emit.cuda.device import DeviceMemory, Runtime, missing
from tests.compll.emit.cuda.programs import program
from tests.compll.emit.cuda.table import Call, CudaCodec, Prepared
from tests.compll.programs import BUILTIN

CODECS = (*BUILTIN, "adacomp", "blockquant4", "sparseloco")
WARM_UPS = 5


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default="256M", help="size of the float32 tensor (default: 256M)")
    parser.add_argument("--codec", action="append", choices=CODECS, help="may be repeated (default: all)")
    parser.add_argument("--repeats", type=int, default=50, help="timed repetitions (default: 50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


class Timer:
    """Measures the milliseconds of work on the stream."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self._events:
            runtime("EventCreate", ctypes.byref(event), 0)

    def __call__(self, start: Callable[[], None]) -> float:
        first, last = self._events
        self._runtime("EventRecord", first, None)
        start()
        self._runtime("EventRecord", last, None)
        milliseconds = ctypes.c_float()
        self._runtime("EventSynchronize", last)
        self._runtime("EventElapsedTime", ctypes.byref(milliseconds), first, last)
        return milliseconds.value


def measure(name: str, library: Path, gradient: NDArray[np.float32], runtime: Runtime, repeats: int) -> Row:
    """The row of one codec."""
    memory, timer = DeviceMemory(runtime), Timer(runtime)
    source, target = memory.put(gradient), memory.room(gradient.nbytes)
    codec = CudaCodec(library, program(name), memory, {})
    prepared = Prepared(codec, gradient, codec.new_state(len(gradient)), Call(seed=1))

    def copy() -> None:
        runtime.start_copy(target.address.value, source.address.value, gradient.nbytes)

    prepared.encode()
    payload_bytes = prepared.check()
    copies: list[float] = []
    encodes: list[float] = []
    decodes: list[float] = []
    for repetition in range(-WARM_UPS, repeats):
        times = [timer(copy), timer(prepared.encode), timer(copy), timer(prepared.decode)]
        if repetition >= 0:
            copies += times[::2]
            encodes.append(times[1])
            decodes.append(times[3])
    prepared.check()
    return {
        "codec": name,
        "encode_copy_ratio": statistics.median(e / c for e, c in zip(encodes, copies[::2], strict=True)),
        "decode_copy_ratio": statistics.median(d / c for d, c in zip(decodes, copies[1::2], strict=True)),
        "encode_ms": statistics.median(encodes),
        "decode_ms": statistics.median(decodes),
        "copy_ms": statistics.median(copies),
        "bytes": payload_bytes,
        "size_bytes": gradient.nbytes,
        "repeats": repeats,
        "gpu": runtime.name(),
    }


def main() -> int:
    given = arguments().parse_args()
    reason = missing()
    if reason is not None:
        print(f"codec_gpu: nothing can be measured here: {reason}", file=sys.stderr)
        return 2
    names = given.codec or list(CODECS)
    gradient = np.random.default_rng(1).standard_normal(given.size // 4, np.float32)
    runtime = Runtime()
    with tempfile.TemporaryDirectory() as directory:
        library = starting_library([program(name) for name in names], Path(directory))
        rows = [measure(name, library, gradient, runtime, given.repeats) for name in names]
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
