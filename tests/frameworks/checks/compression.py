# SPDX-License-Identifier: Apache-2.0
"""Horovod's argument `compression=` takes Horovod's compressors and a user's own compressors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks.training import batches, reference, start_weights
from tests.frameworks.checks.values import divided, of_all, own


class Halving:
    """A compressor with Horovod's interface but without a base class; `ctx` is the divisor that it used."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor / 2, 2

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor * ctx + 1  # the added 1 shows that decompress() was called


def check_compression_can_be_called(adapter: Adapter) -> None:
    hvd = adapter.module
    whole = adapter.tensor(np.arange(5, dtype=np.int32))
    for compression, sent in ((hvd.Compression.none, "float32"), (hvd.Compression.fp16, "float16")):
        values = own(adapter, (3, 5))
        tensor, context = compression.compress(adapter.tensor(values))
        assert adapter.numpy(tensor).dtype == sent
        back = adapter.numpy(compression.decompress(tensor, context))
        assert back.dtype == np.float32
        assert np.array_equal(back, values)
        same, context = compression.compress(whole)
        assert adapter.numpy(compression.decompress(same, context)).dtype == np.int32


def check_a_compressor_of_ones_own(adapter: Adapter) -> None:
    hvd = adapter.module
    total = np.sum(of_all(adapter, (4, 3)), axis=0) + 1
    for compression in (Halving, Halving()):
        options = {"op": hvd.Sum, "compression": compression, "name": "own"}
        assert np.array_equal(adapter.call("allreduce", own(adapter, (4, 3)), **options), total)
        (member,) = adapter.call_grouped("grouped_allreduce", [own(adapter, (4, 3))], **options)
        assert np.array_equal(member, total)


def check_fp16_of_a_maximum(adapter: Adapter) -> None:
    hvd = adapter.module
    options = {"op": hvd.Max, "compression": hvd.Compression.fp16, "name": "fp16 max"}
    result = adapter.call("allreduce", own(adapter, (1000,)), **options)
    assert result.dtype == np.float32
    assert np.array_equal(result, np.max(of_all(adapter, (1000,)), axis=0))


def check_what_is_no_compressor_is_refused(adapter: Adapter) -> None:
    for compression in ("fp16", None, object()):
        with pytest.raises(adapter.module.InvalidArgument, match="Compressor of your own"):
            adapter.call("allreduce", np.ones(3, np.float32), compression=compression, name="none")
    with pytest.raises(adapter.module.InvalidArgument, match="not both"):
        adapter.call("allreduce", np.ones(3, np.float32), compression=Halving, codec="fp16", name="both")


class Quarters:
    """A compressor that returns the exact values, so training must not notice it."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor * 0.25, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor * 4


class Nothing(Quarters):
    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor * 0


def check_a_reducescatter_with_a_compressor(adapter: Adapter) -> None:
    hvd = adapter.module
    ends = np.cumsum([0, *divided(5, hvd.size())])
    mine = slice(ends[hvd.rank()], ends[hvd.rank() + 1])
    total = np.sum(of_all(adapter, (5, 3)), axis=0)[mine]
    if adapter.name == "mxnet":
        return  # Horovod's reducescatter for MXNet has no compression=
    for compression, more in ((Halving, 1), (hvd.Compression.fp16, 0)):
        options = {"op": hvd.Sum, "compression": compression, "name": "own"}
        assert np.array_equal(adapter.call("reducescatter", own(adapter, (5, 3)), **options), total + more)
        (member,) = adapter.call_grouped("grouped_reducescatter", [own(adapter, (5, 3))], **options)
        assert np.array_equal(member, total + more)


def check_training_with_a_compressor_of_ones_own(adapter: Adapter) -> None:
    hvd = adapter.module
    for options in ({}, {"gradient_predivide_factor": 2.0}):
        after = adapter.train(start_weights(), batches(hvd.rank()), compression=Quarters, **options)
        for name, expected in reference(hvd.size()).items():
            np.testing.assert_allclose(after[name], expected, rtol=1e-4, atol=1e-5)
    after = adapter.train(start_weights(), batches(hvd.rank()), compression=Nothing())
    for name, expected in start_weights().items():
        assert np.array_equal(after[name], expected)
    for options in ({"codec": "fp16"}, {"codec_for": {"w": "fp16"}}, {"plan": "auto"}):
        with pytest.raises(hvd.InvalidArgument, match="compression"):
            adapter.train(start_weights(), batches(hvd.rank()), compression=Quarters, **options)
