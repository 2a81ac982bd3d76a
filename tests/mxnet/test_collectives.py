# SPDX-License-Identifier: Apache-2.0
"""Single arrays: MXNet's engine puts the operations in order with what uses the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402


def _computed_before_and_after() -> np.ndarray:
    hp.init()
    value = mx.nd.ones((50, 50))
    for _ in range(10):
        value = mx.nd.dot(value, value) / 50
    result = hp.allreduce(value + hp.rank(), average=False, name="value")
    hp.allreduce_(result, name="again")
    return (result * 2).asnumpy()


def test_operations_wait_for_their_values_and_are_waited_for() -> None:
    for result in run(_computed_before_and_after, 2):
        np.testing.assert_allclose(result, np.full((50, 50), 6.0), rtol=1e-6)


def _all_dtypes() -> list[Any]:
    hp.init()
    results = []
    for dtype in ("float32", "float64", "float16", "uint8", "int8", "int32", "int64"):
        array = hp.allreduce(mx.nd.array([1, 2, 3], dtype=dtype) * (hp.rank() + 1), op=hp.Sum, name=dtype)
        results.append((str(np.dtype(array.dtype)), array.asnumpy().tolist()))
    return results


def test_every_dtype_of_mxnet_is_added_up() -> None:
    for results in run(_all_dtypes, 2):
        assert all(values == [3, 6, 9] for _, values in results)
        assert [dtype for dtype, _ in results][2] == "float16"


def _broadcast_after_inference() -> np.ndarray:
    hp.init()
    mx.random.seed(hp.rank())
    layer = mx.gluon.nn.Conv2D(64, 3, in_channels=16)
    layer.initialize(mx.init.Uniform(1.0))
    layer(mx.nd.ones((8, 16, 14, 14)))  # leaves the weights in oneDNN's own order
    hp.broadcast_parameters(layer.collect_params(), root_rank=1)
    return layer.weight.data().asnumpy()


def test_weights_that_inference_has_reordered_are_broadcast() -> None:
    first, second = run(_broadcast_after_inference, 2)
    np.testing.assert_array_equal(first, second)


def _objects() -> Any:
    hp.init()
    return hp.broadcast_object({"epoch": hp.rank(), "name": "x" * 1000}, root_rank=1)


def test_objects_are_broadcast() -> None:
    assert run(_objects, 3) == [{"epoch": 1, "name": "x" * 1000}] * 3


def _different_shapes() -> None:
    hp.init()
    hp.allreduce(mx.nd.ones(3 + hp.rank()), name="a").wait_to_read()


def test_different_shapes_are_an_error_on_every_rank() -> None:
    for error in outcomes(_different_shapes, 2):
        assert isinstance(error, hp.Mismatch)
        assert "'allreduce.a'" in str(error)


def _naive_engine() -> None:
    hp.init()


def test_mxnets_naive_engine_is_refused() -> None:
    (error,) = outcomes(_naive_engine, 1, MXNET_ENGINE_TYPE="NaiveEngine")
    assert isinstance(error, hp.Unsupported)
