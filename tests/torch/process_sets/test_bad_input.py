# SPDX-License-Identifier: Apache-2.0
"""Wrong process sets are typed errors that leave the ranks usable."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress import runtime
from hipress.errors import InvalidArgument, Mismatch, Unsupported
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _wrong_sets() -> None:
    hp.init()
    known = hp.add_process_set([0, 1])
    for ranks, words in (
        ([0, 3], r"has ranks of 0 to 2, each once, not \[0, 3\]"),
        ([-1, 0], "each once"),
        ([1, 1], "each once"),
        ([], "one rank at least"),
        ([1, 0], "are registered already, as ProcessSet\\(process_set_id=1"),
        ([0, 1, 2], "are registered already, as ProcessSet\\(process_set_id=0"),
        (known, "is registered already"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            hp.add_process_set(ranks)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a rank is an integer, and 1\.5 is none"):
        hp.ProcessSet([0, 1.5])  # type: ignore[list-item]
    with pytest.raises(Unsupported, match="communicators"):
        hp.ProcessSet(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="give the result of add_process_set"):
        hp.remove_process_set([0, 1])  # type: ignore[arg-type]
    hp.barrier()


def test_sets_that_cannot_be_are_refused_on_all_ranks() -> None:
    run(_wrong_sets, 3)


def _wrong_uses() -> None:
    hp.init()
    process_set = hp.add_process_set([0, 1])
    values = torch.ones(3)
    if hp.rank() == 2:
        for call in (
            lambda: hp.allreduce(values, process_set=process_set),
            lambda: hp.allgather(values, process_set=process_set),
            lambda: hp.alltoall(values, process_set=process_set),
            lambda: hp.broadcast(values, 0, process_set=process_set),
            lambda: hp.reducescatter(values, process_set=process_set),
            lambda: hp.barrier(process_set),
            lambda: hp.allgather_object(1, process_set=process_set),
            lambda: process_set.rank(),
        ):
            with pytest.raises(ValueError, match="rank 2 is not in ProcessSet"):
                call()
    else:
        with pytest.raises(InvalidArgument, match="the root rank 2 is not in the process set of ranks 0-1"):
            hp.broadcast(values, 2, process_set=process_set)
    for call in (lambda given: hp.allreduce(values, process_set=given), lambda given: given.size()):
        with pytest.raises(ValueError, match="is not registered: call add_process_set"):
            call(hp.ProcessSet([0, 1]))
    with pytest.raises(InvalidArgument, match="give global_process_set or the result of add_process_set"):
        hp.allreduce(values, process_set=[0, 1])  # type: ignore[arg-type]
    assert hp.allreduce(values).tolist() == [1.0] * 3


def test_operations_with_a_wrong_set_are_refused_and_ranks_go_on() -> None:
    run(_wrong_uses, 3)


def _in_use() -> None:
    hp.init()
    process_set = hp.add_process_set([0, 1])
    handle: Any = hp.allreduce_async(torch.ones(3), name="w", process_set=process_set) if hp.rank() < 2 else None
    # Ranks 0 and 1 refuse, and rank 2 is told: no rank ends the set.
    with pytest.raises((InvalidArgument, Mismatch), match=r"is in use: synchronize\(\) 'allreduce\.w"):
        hp.remove_process_set(process_set)
    if handle is not None:
        assert hp.synchronize(handle).tolist() == [1.0] * 3
    hp.barrier()
    assert hp.remove_process_set(process_set)


def test_a_set_in_use_is_not_removed() -> None:
    run(_in_use, 3)


def _different() -> None:
    hp.init()
    with pytest.raises(Mismatch, match=r"the process set that they add: rank .* has \[0, .\]"):
        hp.add_process_set([0, 1] if hp.rank() == 0 else [0, 2])
    hp.barrier()


def test_ranks_that_add_different_sets_are_told() -> None:
    run(_different, 3)


def _outlived() -> None:
    hp.init()
    process_set = hp.add_process_set([0, 1])
    hp.shutdown()
    hp.init()
    with pytest.raises(InvalidArgument, match="was registered before the last shutdown"):
        process_set.size()
    again = hp.add_process_set(process_set)
    assert again.size() == 2
    # A set does not keep the engine, with its files and threads, until a collection of cycles.
    gc.collect()
    gc.disable()
    try:
        process = weakref.ref(runtime.current())
        hp.shutdown()
        assert process() is None
    finally:
        gc.enable()


def test_a_set_ends_with_its_engine() -> None:
    run(_outlived, 3)
