# SPDX-License-Identifier: Apache-2.0
"""Operations and training among some of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks.training import batches, start_weights


def _own_set(adapter: Adapter) -> tuple[list[Any], Any]:
    """Sets of the ranks with even and with odd numbers, and the one of this rank."""
    hvd = adapter.module
    parts = [list(range(first, hvd.size(), 2)) for first in range(min(2, hvd.size()))]
    if hvd.size() == 1:
        return [], hvd.global_process_set  # its ranks are those of the only set
    sets = [hvd.add_process_set(ranks) for ranks in parts]
    return sets, sets[hvd.rank() % 2]


def check_collectives_among_some_ranks(adapter: Adapter) -> None:
    hvd = adapter.module
    sets, mine = _own_set(adapter)
    ranks, position, own = mine.ranks, mine.rank(), np.arange(6, dtype=np.float32) + 10 * hvd.rank()
    inputs = [np.arange(6, dtype=np.float32) + 10 * rank for rank in ranks]
    total = np.sum(inputs, axis=0)

    def call(function: str, *arguments: Any, **options: Any) -> Any:
        return adapter.call(function, own, *arguments, process_set=mine, **options)

    for name in ("among", None):
        np.testing.assert_array_equal(call("allreduce", op=hvd.Sum, name=name), total)
        np.testing.assert_array_equal(call("broadcast", root_rank=ranks[-1], name=name), inputs[-1])
        np.testing.assert_array_equal(call("allgather", name=name), np.concatenate(inputs))
        rows = np.array_split(total, len(ranks))[position]
        np.testing.assert_array_equal(call("reducescatter", op=hvd.Sum, name=name), rows)
    if 6 % len(ranks) == 0:
        share = 6 // len(ranks)
        parts = [each[position * share : (position + 1) * share] for each in inputs]
        np.testing.assert_array_equal(call("alltoall", name="moved"), np.concatenate(parts))
    gathered = adapter.call_grouped("grouped_allgather", [own, own], name="g", process_set=mine)
    np.testing.assert_array_equal(gathered[1], np.concatenate(inputs))
    reduced = adapter.call_grouped("grouped_allreduce", [own, own], op=hvd.Average, name="r", process_set=mine)
    np.testing.assert_allclose(reduced[0], total / len(ranks), rtol=1e-6)
    # All ranks together use the same name.
    everybody = adapter.call("allreduce", own, op=hvd.Sum, name="among")
    np.testing.assert_array_equal(everybody, sum(np.arange(6) + 10 * rank for rank in range(hvd.size())))
    if len(sets) == 2:
        other = sets[1 - hvd.rank() % 2]
        with pytest.raises(hvd.InvalidArgument, match="is not in ProcessSet"):
            adapter.call("allreduce", own, name="foreign", process_set=other)
    hvd.barrier()
    for each in sets:
        assert hvd.remove_process_set(each)


def check_training_among_some_ranks(adapter: Adapter) -> None:
    hvd = adapter.module
    sets, mine = _own_set(adapter)
    for codec in ("none", "onebit"):
        after = adapter.train(start_weights(), batches(hvd.rank()), codec=codec, process_set=mine)
        digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
        for rank in range(hvd.size()):
            assert (digests[rank] == digests[hvd.rank()]) == (rank in mine.ranks), (codec, rank)
    if hvd.size() > 1:  # a rank that is not in the set trains as if it were alone
        outside = adapter.train(start_weights(), batches(hvd.rank()), process_set=sets[0])
        digests = hvd.allgather_object({name: value.tobytes() for name, value in outside.items()})
        evens = set(sets[0].ranks)
        for rank in range(hvd.size()):
            same = rank == hvd.rank() or {rank, hvd.rank()} <= evens
            assert (digests[rank] == digests[hvd.rank()]) == same, rank
    hvd.barrier()
    for each in sets:
        assert hvd.remove_process_set(each)
