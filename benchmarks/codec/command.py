# SPDX-License-Identifier: Apache-2.0
"""Measures encoding and decoding of one tensor as multiples of memcpy of the same tensor, beside plain torch
operations.

    python benchmarks/codec.py --size 64M --codec onebit --codec "tbq(threshold=1)" --json FILE

The benchmark has one process and, without --threads, one thread. The values are normally distributed. Encoding includes
error feedback; states start as zeros and pass from step to step. Decoding adds to a tensor. A row per codec has the
columns

    encode_memcpy_ratio   time of encode divided by the time of memcpy: 1 is as fast as copying, 2 takes twice as long
    decode_memcpy_ratio   the same for decoding and adding
    error                 relative L2 distance of the decoded values of the first step from the tensor
    bytes                 payload of the first step; headers are not included
    torch_encode_ratio    time of encode in plain torch operations (plain_torch.py), divided by the time of HiPress: 2
                          means that HiPress is twice as fast
    encode_ms, decode_ms, memcpy_ms     medians, in milliseconds
    size_bytes, threads, isa, repeats   the tensor's size, the threads of HiPress and torch, the instruction set
                                        of HiPress, and the number of repetitions (at most five for torch)

Ratios are medians of the ratios of neighbouring measurements, because the speed of memory varies over time. memcpy runs
directly before and after each encode and decode, and HiPress directly before torch. memcpy and HiPress use huge pages.
torch has its default settings: it reads the same tensor, and allocates its own memory, on many systems in small pages
that are new for each large temporary. THP_MEM_ALLOC_ENABLE=1 in the environment gives torch huge pages, too.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.report import Row, format_size, parse_size, print_table, write_json
from hipress._library import load_core
from hipress.adapter.state_blocks import length_of
from hipress.errors import InvalidArgument

Floats = NDArray[np.float32]
Element = TypeVar("Element", bound=np.generic)

CODECS = (
    *("bf16", "fp16", "int8", "fp8_e4m3", "fp8_e5m2", "int4", "fp4_e2m1", "natural", "qsgd"),
    *(
        "int8(stochastic=true)",
        "u8bit",
        "dynamiq",
        "terngrad(bitwidth=2)",
        "tbq",
        "onebit",
        "efsignsgd",
        "topk",
        "randomk",
        "threshold",
        "dgc",
        "graddrop",
    ),
)
#: A huge page of Linux on x86-64. Every buffer starts at a new page, so that pages affect all systems equally.
HUGE_PAGE = 2 << 20
WARM_UPS = 3
#: The largest number of repetitions of torch, which needs up to two seconds for 64M.
TORCH_REPEATS = 5
SEED = 1


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default="64M", help="size of the float32 tensor (default: 64M)")
    parser.add_argument("--codec", action="append", help=f"may be repeated (default: {', '.join(CODECS)})")
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of codecs and torch; memcpy has one (default: 1)"
    )
    parser.add_argument("--repeats", type=int, default=25, help="timed repetitions (default: 25)")
    parser.add_argument("--isa", help="instruction set of HiPress (default: the best of this processor)")
    parser.add_argument("--no-torch", action="store_true", help="do not run torch, which takes most of the time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def aligned(count: int, dtype: type[Element]) -> NDArray[Element]:
    """Zeros in memory that start at the boundary of a huge page."""
    size = count * np.dtype(dtype).itemsize
    # NumPy requests huge pages for large arrays. A spare page on both sides puts all elements onto huge pages.
    memory = np.empty(size + 2 * HUGE_PAGE, np.uint8)
    start = -memory.ctypes.data % HUGE_PAGE
    array = memory[start : start + size].view(dtype)
    array.fill(0)
    return array


class Memcpy:
    """The reference: it copies a tensor, always to the same memory."""

    def __init__(self, source: Floats) -> None:
        self._arrays = aligned(len(source), np.float32), source
        # The addresses are looked up once, because a lookup takes longer than the copy of a small tensor.
        self._to, self._from = (array.ctypes.data for array in self._arrays)

    def __call__(self) -> None:
        ctypes.memmove(self._to, self._from, self._arrays[0].nbytes)


class Ours:
    """A codec of the core, with memory that every step reuses."""

    def __init__(self, codec: Any, gradient: Floats, threads: int) -> None:
        self._codec = codec
        self._gradient = gradient
        self._threads = threads
        lengths = [length_of(len(gradient), codec.state_block(state)) for state in codec.states]
        self._before = [aligned(length, np.float32) for length in lengths]
        self._after = [aligned(length, np.float32) for length in lengths]
        self._output = aligned(codec.max_encoded_bytes(len(gradient)), np.uint8)
        self._step = 0
        self.payload = self._output[:0]

    def encode(self) -> None:
        """Encodes the next step."""
        size = self._codec.encode_into(
            self._gradient,
            self._before,
            self._after,
            self._output,
            seed=SEED,
            step=self._step,
            tensor=0,
            first_element=0,
            scale=1.0,
            threads=self._threads,
        )
        self.payload = self._output[:size]
        # As in the engine, a step reads the states that the previous step wrote.
        self._before, self._after = self._after, self._before
        self._step += 1

    def decode(self, output: Floats) -> None:
        """Adds the values of the last step to `output`."""
        self._codec.decode_into(self.payload, output, accumulate=True, threads=self._threads)


@dataclass
class Samples:
    """Seconds, and ratios to the mean time of the copies before and after; one entry per repetition."""

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


def seconds(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def relative_error(decoded: Floats, exact: Floats) -> float:
    """The relative L2 distance."""
    wrong = float(np.linalg.norm((decoded - exact).astype(np.float64)))
    return wrong / float(np.linalg.norm(exact.astype(np.float64)))


def measure(codec: Any, gradient: Floats, threads: int, repeats: int, torch_encode: Callable[[], object] | None) -> Row:
    """The row of one codec. Raises RuntimeError if the decoded values are not finite."""
    memcpy = Memcpy(gradient)
    ours = Ours(codec, gradient, threads)
    sum_ = aligned(len(gradient), np.float32)
    ours.encode()
    ours.decode(sum_)
    error, size = relative_error(sum_, gradient), len(ours.payload)
    if not math.isfinite(error):
        raise RuntimeError(f"{codec.signature}: the decoded values are not finite")

    copies: list[float] = []
    encode, decode = Samples(), Samples()
    for repetition in range(-WARM_UPS, repeats):
        times = [seconds(memcpy)]
        for run, samples in ((ours.encode, encode), (lambda: ours.decode(sum_), decode)):
            times += [seconds(run), seconds(memcpy)]
            if repetition >= 0:
                before, taken, after = times[-3:]
                samples.seconds.append(taken)
                samples.ratios.append(2 * taken / (before + after))
        if repetition >= 0:
            copies += times[::2]

    # torch runs last, so that its effect on caches and heap does not slow down the others.
    torch_ratios = []
    if torch_encode is not None:
        torch_encode()
        for _ in range(min(repeats, TORCH_REPEATS)):
            mine = seconds(ours.encode)
            torch_ratios.append(seconds(torch_encode) / mine)

    return {
        "encode_memcpy_ratio": statistics.median(encode.ratios),
        "decode_memcpy_ratio": statistics.median(decode.ratios),
        "error": error,
        "bytes": size,
        "torch_encode_ratio": statistics.median(torch_ratios) if torch_ratios else None,
        "encode_ms": 1000 * statistics.median(encode.seconds),
        "decode_ms": 1000 * statistics.median(decode.seconds),
        "memcpy_ms": 1000 * statistics.median(copies),
        "size_bytes": gradient.nbytes,
        "threads": threads,
        "repeats": repeats,
    }


def torch_encoder(text: str, gradient: Floats, threads: int) -> Callable[[], object] | None:
    """A step of the same codec in torch; None if torch has none. Raises ValueError if it lacks one of the options."""
    # Imported here, because --no-torch also works without torch.
    import torch

    from benchmarks.codec.plain_torch import create_torch_codec

    torch.set_num_threads(threads)
    codec = create_torch_codec(text, len(gradient))
    tensor = torch.from_numpy(gradient)
    return None if codec is None else lambda: codec.encode(tensor)


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.size < 4 or given.threads < 1 or given.repeats < 1:
        parser.error("--size must be at least 4, --threads and --repeats at least 1")
    texts = given.codec or CODECS
    gradient = aligned(given.size // 4, np.float32)
    core = load_core()
    # All codecs are made before the first measurement, so that errors come early.
    try:
        if given.isa:
            core.set_isa_level(given.isa)
        codecs = [core.create_codec(text) for text in texts]
        peers = [None if given.no_torch else torch_encoder(text, gradient, given.threads) for text in texts]
    except InvalidArgument as error:
        parser.error(str(error))
    except ValueError as error:
        parser.error(f"{error}; --no-torch leaves torch out")
    np.random.default_rng(SEED).standard_normal(out=gradient, dtype=np.float32)

    rows: list[Row] = []
    for text, codec, torch_encode in zip(texts, codecs, peers, strict=True):
        figures = measure(codec, gradient, given.threads, given.repeats, torch_encode)
        rows.append({"codec": text, **figures, "isa": core.isa_level()})
    print(f"{format_size(gradient.nbytes)} of float32; times by memcpy's time (1: as fast), torch's time by ours:")
    print_table(rows)
    if given.json:
        write_json(given.json, rows)
    return 0
