# SPDX-License-Identifier: Apache-2.0
"""How long codecs take to encode and decode one tensor, as multiples of memcpy of the same tensor, beside plain torch.

    python benchmarks/codec.py --size 64M --codec onebit --codec "tbq(threshold=1)" --json FILE

In one process and, unless --threads says otherwise, in one thread. The values are Gaussian. Encoding includes error
feedback; states begin as zeros and go from step to step. Decoding adds to a tensor. A row per codec, with the columns

    encode_memcpy_ratio   time of encode by that of memcpy: 1 is as fast as copying, 2 takes twice as long
    decode_memcpy_ratio   the same for decoding and adding
    error                 relative L2 distance of the decoded values of the first step from the tensor
    bytes                 payload of the first step; headers are not included
    torch_encode_ratio    time of encode in plain torch operations, as research code has them (codec_torch.py), by ours:
                          2 means that ours is twice as fast
    encode_ms, decode_ms, memcpy_ms     medians, in milliseconds
    size_bytes, threads, isa, repeats   what was measured: of the tensor, of everybody but memcpy, of our code, and how
                                        often (torch: five times at most)

Ratios are medians, too: of pairs, because memory is not as fast at all times. memcpy runs directly before and after
each encode and decode, and ours directly before torch's. memcpy and ours have huge pages. torch is as it is installed:
it reads the same tensor, but allocates its own as usual, which on many systems means small pages, and fresh ones for
each large temporary. THP_MEM_ALLOC_ENABLE=1 in the environment gives it huge pages, too, and makes it faster.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from report import Row, format_size, parse_size, print_table, write_json

from hipress._library import load_core
from hipress.errors import InvalidArgument

Floats = NDArray[np.float32]
Element = TypeVar("Element", bound=np.generic)

CODECS = ("onebit", "tbq", "terngrad(bitwidth=2)", "dgc", "graddrop")
#: Of Linux on x86-64. All buffers begin with a page of their own, so that pages slow nobody down more than others.
HUGE_PAGE = 2 << 20
WARM_UPS = 3
#: At 64M it needs up to two seconds for each.
TORCH_REPEATS = 5
SEED = 1


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default="64M", help="of the float32 tensor (default: 64M)")
    parser.add_argument("--codec", action="append", help=f"may be repeated (default: {', '.join(CODECS)})")
    parser.add_argument("--threads", type=int, default=1, help="of codecs and torch; memcpy has one (default: 1)")
    parser.add_argument("--repeats", type=int, default=25, help="timed repetitions (default: 25)")
    parser.add_argument("--isa", help="instruction set of our code (default: the best this processor has)")
    parser.add_argument("--no-torch", action="store_true", help="do not run torch's, which takes most of the time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def aligned(count: int, dtype: type[Element]) -> NDArray[Element]:
    """Zeros that begin where a huge page may begin, and are in memory."""
    size = count * np.dtype(dtype).itemsize
    # NumPy asks for huge pages for what is large; a page on both sides, so that first and last get one, too.
    memory = np.empty(size + 2 * HUGE_PAGE, np.uint8)
    start = -memory.ctypes.data % HUGE_PAGE
    array = memory[start : start + size].view(dtype)
    array.fill(0)
    return array


class Memcpy:
    """What everything is compared with: a copy of a tensor to the same place each time."""

    def __init__(self, source: Floats) -> None:
        self._arrays = aligned(len(source), np.float32), source
        # Here, for it takes longer than to copy a small tensor.
        self._to, self._from = (array.ctypes.data for array in self._arrays)

    def __call__(self) -> None:
        ctypes.memmove(self._to, self._from, self._arrays[0].nbytes)


class Ours:
    """A codec of the core with the memory it needs, which is reused in each step."""

    def __init__(self, codec: Any, gradient: Floats, threads: int) -> None:
        self._codec = codec
        self._gradient = gradient
        self._threads = threads
        self._before = [aligned(len(gradient), np.float32) for _ in codec.states]
        self._after = [aligned(len(gradient), np.float32) for _ in codec.states]
        self._output = aligned(codec.max_encoded_bytes(len(gradient)), np.uint8)
        self._step = 0
        self.payload = self._output[:0]

    def encode(self) -> None:
        """The next step's encode."""
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
        # As the engine does: what a step writes, the next one reads.
        self._before, self._after = self._after, self._before
        self._step += 1

    def decode(self, output: Floats) -> None:
        """Adds the last step's values to `output`."""
        self._codec.decode_into(self.payload, output, accumulate=True, threads=self._threads)


@dataclass
class Samples:
    """Seconds, and ratios to the two copies around; one entry per repetition."""

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def relative_error(decoded: Floats, exact: Floats) -> float:
    """The relative L2 distance."""
    wrong = float(np.linalg.norm((decoded - exact).astype(np.float64)))
    return wrong / float(np.linalg.norm(exact.astype(np.float64)))


def measure(codec: Any, gradient: Floats, threads: int, repeats: int, torch_encode: Callable[[], object] | None) -> Row:
    """The figures of one codec. Raises RuntimeError if what it decodes is not finite."""
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

    # After the others: what torch leaves in caches and heap is not to be paid by them.
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
    """One step of the same codec in torch; None if there is none. Raises ValueError if it lacks one of the options."""
    # Here, and not above: --no-torch is for where it is not installed, too.
    import torch
    from codec_torch import create_torch_codec

    torch.set_num_threads(threads)
    codec = create_torch_codec(text, len(gradient))
    tensor = torch.from_numpy(gradient)
    return None if codec is None else lambda: codec.encode(tensor)


def main() -> int:
    """Measure as the command line says; the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.size < 4 or given.threads < 1 or given.repeats < 1:
        parser.error("--size must be at least 4, --threads and --repeats at least 1")
    texts = given.codec or CODECS
    gradient = aligned(given.size // 4, np.float32)
    core = load_core()
    # All of them before the first is measured.
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


if __name__ == "__main__":
    sys.exit(main())
