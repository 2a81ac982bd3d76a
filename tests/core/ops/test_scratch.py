# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.cases import each
from tests.core.ops.arrays import pointer, size

KEPT = 256 << 20


def addresses(library: ctypes.CDLL, sizes: list[int]) -> list[int]:
    wanted, result = np.array(sizes, np.uint64), np.zeros(len(sizes), np.uint64)
    library.scratch_blocks(pointer(wanted), size(len(sizes)), pointer(result))
    return [int(address) for address in result]


def test_blocks_are_aligned_and_do_not_overlap(library: ctypes.CDLL) -> None:
    sizes = [0, 1, 4096, 100_000, 64, 5000]
    places = addresses(library, sizes)
    assert all(place % 64 == 0 and place for place in places)
    ends = sorted((place, place + length) for place, length in zip(places, sizes, strict=True))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_the_next_call_gets_the_same_memory(library: ctypes.CDLL) -> None:
    sizes = [100_000, 200_000, 100_000, 3_000_000]
    # The test uses a new thread, because the pool of this thread may have blocks of other tests.
    with ThreadPoolExecutor(1) as thread:
        first, again = thread.map(addresses, [library] * 2, [sizes] * 2)
    assert set(again) == set(first)


def test_more_than_is_kept_is_no_trouble(library: ctypes.CDLL) -> None:
    for sizes in ([KEPT + 1], [KEPT // 2] * 3, [KEPT // 4] * 5, [10, KEPT - 4096, 4096]):
        assert all(addresses(library, sizes))


@each(("count", "group"), [(0, 1), (1, 1), (1000, 7), (100_000, 1024), (100_000, 100_000)])
def test_an_appender_keeps_what_was_added(library: ctypes.CDLL, count: int, group: int) -> None:
    library.append_numbers.restype = ctypes.c_size_t
    out = np.empty(count, np.int32)
    assert library.append_numbers(size(count), size(group), pointer(out)) == count
    assert np.array_equal(out, np.arange(count))
