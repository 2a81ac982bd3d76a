# SPDX-License-Identifier: Apache-2.0
"""Collectives give the right values, element types and shapes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks.values import divided, of_all, own

SHAPES = [(1,), (0,), (3, 5), (70_000,)]


def check_ranks_know_their_place(adapter: Adapter) -> None:
    hvd = adapter.module
    assert hvd.is_initialized()
    assert 0 <= hvd.rank() < hvd.size()
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()
    assert not hvd.mpi_built()
    assert not hvd.gloo_enabled()


def check_allreduce_of_every_type(adapter: Adapter) -> None:
    hvd = adapter.module
    for dtype in adapter.dtypes:
        for shape in SHAPES:
            every = of_all(adapter, shape, dtype)
            result = adapter.call("allreduce", own(adapter, shape, dtype), op=hvd.Sum, name=f"{dtype}.{shape}")
            assert result.dtype == dtype
            assert result.shape == shape
            assert np.array_equal(result, np.sum(every, axis=0, dtype=dtype)), (dtype, shape)


def check_allreduce_averages_unless_told_otherwise(adapter: Adapter) -> None:
    every = of_all(adapter, (1000,))
    mean = (np.sum(every, axis=0) * np.float32(1 / len(every))).astype(np.float32)
    assert np.array_equal(adapter.call("allreduce", own(adapter, (1000,)), name="mean"), mean)
    whole = adapter.call("allreduce", own(adapter, (1000,), "int32"), name="whole")
    assert np.array_equal(whole, np.trunc(np.sum(every, axis=0) / len(every)).astype(np.int32))


def check_min_max_and_product(adapter: Adapter) -> None:
    hvd = adapter.module
    functions = {"Min": np.minimum, "Max": np.maximum, "Product": np.multiply}
    for dtype in adapter.dtypes:
        for name, function in functions.items():
            result = adapter.call("allreduce", own(adapter, (999,), dtype), op=getattr(hvd, name), name=name + dtype)
            assert np.array_equal(result, function.reduce(of_all(adapter, (999,), dtype), dtype=dtype)), (dtype, name)


def check_factors(adapter: Adapter) -> None:
    hvd = adapter.module
    options = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0, "name": "factors"}
    result = adapter.call("allreduce", own(adapter, (100,)), **options)
    assert np.array_equal(result, np.sum(of_all(adapter, (100,)), axis=0) * np.float32(1.5))


def check_integers_of_each_rank_are_scaled_and_truncated_before_the_sum(adapter: Adapter) -> None:
    hvd = adapter.module
    size = hvd.size()
    options = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 1.5, "name": "whole factors"}
    for dtype in ("uint8", "int8", "int32", "int64"):
        values = np.full((2 * size, 1), 3, dtype)
        expected = int(size * 1.5)  # each rank's 3 times .5 is 1 as an integer
        whole = adapter.call("allreduce", values, **options)
        (member,) = adapter.call_grouped("grouped_allreduce", [values], **options)
        rows = adapter.call("reducescatter", values, **options)
        (part,) = adapter.call_grouped("grouped_reducescatter", [values], **options)
        for result, count in ((whole, 2 * size), (member, 2 * size), (rows, 2), (part, 2)):
            assert result.dtype == dtype
            assert result.ravel().tolist() == [expected] * count


def check_compression(adapter: Adapter) -> None:
    hvd = adapter.module
    values = own(adapter, (20_000,))
    before = hvd.counters()["bytes_sent"]
    result = adapter.call("allreduce", values, compression=hvd.Compression.fp16, op=hvd.Sum, name="halves")
    assert np.array_equal(result, np.sum(of_all(adapter, (20_000,)), axis=0))
    messages = hvd.size() - 1  # at most: the aggregator sends the result to all other ranks
    assert hvd.counters()["bytes_sent"] - before <= messages * (values.nbytes / 2 + 100)


def check_grouped_allreduce(adapter: Adapter) -> None:
    shapes = [(5,), (70_000,), (2, 3), (0,)]
    group = [own(adapter, shape) for shape in shapes]
    results = adapter.call_grouped("grouped_allreduce", group, op=adapter.module.Sum, name="group")
    for shape, result in zip(shapes, results, strict=True):
        assert np.array_equal(result, np.sum(of_all(adapter, shape), axis=0))


def check_broadcast(adapter: Adapter) -> None:
    for root in range(adapter.module.size()):
        for dtype in adapter.dtypes:
            for shape in SHAPES:
                name = f"{root}.{dtype}.{shape}"
                result = adapter.call("broadcast", own(adapter, shape, dtype), root_rank=root, name=name)
                assert np.array_equal(result, of_all(adapter, shape, dtype)[root]), name


def check_allgather_of_different_lengths(adapter: Adapter) -> None:
    hvd = adapter.module
    for dtype in adapter.dtypes:
        for lengths in (range(hvd.size()), [2] * hvd.size(), [0] * hvd.size()):
            shape = (lengths[hvd.rank()], 3)
            result = adapter.call("allgather", own(adapter, shape, dtype), name=f"{dtype}.{list(lengths)}")
            every = [of_all(adapter, (length, 3), dtype)[rank] for rank, length in enumerate(lengths)]
            assert np.array_equal(result, np.concatenate(every)), (dtype, lengths)


def check_grouped_allgather(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    group = [own(adapter, (rank + 1, 2)), own(adapter, (3,))]
    first, second = adapter.call_grouped("grouped_allgather", group, name="group")
    assert np.array_equal(first, np.concatenate([of_all(adapter, (each + 1, 2))[each] for each in range(size)]))
    assert np.array_equal(second, np.concatenate(of_all(adapter, (3,))))


def check_alltoall(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    for dtype in adapter.dtypes:

        def parts(source: int, dtype: str = dtype) -> list[np.ndarray]:
            rows = [(source + peer) % 3 for peer in range(size)]
            return [np.full((count, 2), (source + 2 * peer) % 2, dtype) for peer, count in enumerate(rows)]

        result, received = adapter.alltoall(np.concatenate(parts(rank)), [len(part) for part in parts(rank)], dtype)
        expected = [parts(source)[rank] for source in range(size)]
        assert received == [len(part) for part in expected]
        assert np.array_equal(result, np.concatenate(expected)), dtype
    for splits in (np.full(size, 0.5, np.float32), np.ones((size, 1), np.int32)):
        with pytest.raises(adapter.module.InvalidArgument, match="integers"):
            adapter.module.alltoall(adapter.tensor(np.ones((size, 1), np.float32)), adapter.tensor(splits))
    even = adapter.call("alltoall", np.full((2 * size, 3), rank, np.float32), name="even")
    assert np.array_equal(even, np.repeat(np.arange(size, dtype=np.float32), 2)[:, None] * np.ones((1, 3)))


def check_reducescatter(adapter: Adapter) -> None:
    hvd = adapter.module
    for rows in (0, 1, 5, 1000):
        ends = np.cumsum([0, *divided(rows, hvd.size())])
        mine = slice(ends[hvd.rank()], ends[hvd.rank() + 1])
        total = np.sum(of_all(adapter, (rows, 3)), axis=0)
        result = adapter.call("reducescatter", own(adapter, (rows, 3)), op=hvd.Sum, name=f"sum{rows}")
        assert np.array_equal(result, total[mine]), rows
        (mean,) = adapter.call_grouped("grouped_reducescatter", [own(adapter, (rows, 3))], name=f"mean{rows}")
        np.testing.assert_allclose(mean, total[mine] / hvd.size(), rtol=1e-6)


def check_barrier(adapter: Adapter) -> None:
    for _ in range(3):
        adapter.module.barrier()
