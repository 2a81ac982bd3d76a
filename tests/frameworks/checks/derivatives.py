# SPDX-License-Identifier: Apache-2.0
"""The derivatives of collectives equal Horovod's."""

from __future__ import annotations

import numpy as np

from tests.frameworks.adapters.adapter import Adapter, Array


def _weights(rank: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng([rank, 5]).integers(-4, 5, shape).astype(np.float32)


def check_derivative_of_allreduce(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    every = [_weights(each, (6,)) for each in range(size)]
    options = {"op": adapter.module.Sum, "name": "derivative.allreduce"}
    gradient = adapter.gradient("allreduce", np.ones(6, np.float32), every[rank], **options)
    np.testing.assert_allclose(gradient, np.sum(every, axis=0))


def check_derivative_of_broadcast(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    every = [_weights(each, (6,)) for each in range(size)]
    gradient = adapter.gradient("broadcast", np.ones(6, np.float32), every[rank], 0, name="derivative.broadcast")
    expected = np.mean(every, axis=0) if rank == 0 else np.zeros(6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def check_derivative_of_allgather(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    lengths = [each + 1 for each in range(size)]
    every = [_weights(each, (sum(lengths), 2)) for each in range(size)]
    values = np.ones((lengths[rank], 2), np.float32)
    gradient = adapter.gradient("allgather", values, every[rank], name="derivative.allgather")
    first = sum(lengths[:rank])
    np.testing.assert_allclose(gradient, np.mean(every, axis=0)[first : first + lengths[rank]], rtol=1e-6)


def check_derivative_of_alltoall(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    every = [_weights(each, (size, 2)) for each in range(size)]
    gradient = adapter.gradient("alltoall", np.ones((size, 2), np.float32), every[rank], name="derivative.alltoall")
    np.testing.assert_allclose(gradient, np.stack([weights[rank] for weights in every]))


def check_derivative_of_reducescatter(adapter: Adapter) -> None:
    rank, size = adapter.module.rank(), adapter.module.size()
    every = [_weights(each, (2, 3)) for each in range(size)]
    values = np.ones((2 * size, 3), np.float32)
    for op, factor in ((adapter.module.Sum, size), (adapter.module.Average, 1)):
        options = {"op": op, "name": f"derivative.reducescatter.{factor}.{op!r}"}
        gradient = adapter.gradient("reducescatter", values, every[rank], **options)
        np.testing.assert_allclose(gradient, np.concatenate(every) * factor)
