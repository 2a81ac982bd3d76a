# SPDX-License-Identifier: Apache-2.0
"""Compressors in the shapes of GRACE's and of Horovod's classes are codecs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress import _core
from hipress.codecs.laws import breaches
from hipress.errors import InvalidArgument, Mismatch
from tests.torch.ranks import outcomes


class GraceTopK:
    """As GRACE's: values and places; the context has the number of values and the shape."""

    tensors_size_are_same = True

    def __init__(self, compress_ratio: float) -> None:
        self.compress_ratio = compress_ratio

    def compress(self, tensor: torch.Tensor, name: str) -> Any:
        flat = tensor.flatten()
        places = flat.abs().topk(max(1, int(flat.numel() * self.compress_ratio)), sorted=False).indices
        return (flat[places], places), (tensor.numel(), tensor.size())

    def decompress(self, tensors: Any, context: Any) -> torch.Tensor:
        values, places = tensors
        return torch.zeros(context[0]).scatter_(0, places, values).view(context[1])


class GraceThreshold(GraceTopK):
    """As GRACE's: as many values as are great enough."""

    tensors_size_are_same = False

    def compress(self, tensor: torch.Tensor, name: str) -> Any:
        places = (tensor.abs() > 0.5).nonzero().flatten()
        return (tensor[places], places), (tensor.numel(), tensor.size())


class KeepsTheScale:
    """In Horovod's shape, and wrong: another rank does not know the scale."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Any:
        scale = tensor.abs().max().clamp(min=1e-20)
        return (tensor / scale).to(torch.float16), scale

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor.float() * context


def test_a_compressor_of_grace_is_a_codec_with_a_residual() -> None:
    codec = _core.create_codec(hp.register_compressor(GraceTopK(0.25), "grace_topk"))
    values, states = np.random.default_rng(0).standard_normal(1000).astype(np.float32), {}
    states["residual"] = np.zeros(1000, np.float32)
    decoded = codec.decode(codec.encode(values, states), 1000)
    assert np.count_nonzero(decoded) == 250
    np.testing.assert_array_equal(decoded + states["residual"], values)
    assert breaches(codec, _core.create_codec("grace_topk")) == []


def test_its_messages_may_have_any_length() -> None:
    codec = _core.create_codec(hp.register_compressor(GraceThreshold(0.1), "grace_threshold"))
    assert breaches(codec, _core.create_codec("grace_threshold")) == []


def test_other_settings_are_another_codec() -> None:
    assert hp.register_compressor(GraceTopK(0.5), "grace_half") == hp.register_compressor(GraceTopK(0.5), "grace_half")
    with pytest.raises(InvalidArgument, match="grace_half exists already and is another one"):
        hp.register_compressor(GraceTopK(0.25), "grace_half")


def test_a_compressor_of_horovod_is_a_codec() -> None:
    codec = _core.create_codec(hp.register_compressor(hp.Compression.fp16, "hvd_fp16")(error_feedback=False))
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    np.testing.assert_array_equal(codec.decode(codec.encode(values), 1000), values.astype(np.float16))


def test_a_context_that_does_not_travel_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ctx depends on the values, and ctx does not travel"):
        hp.register_compressor(KeepsTheScale, "keeps_the_scale")


def test_what_is_no_compressor_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"has no compress\(\)"):
        hp.register_compressor(3, "three")


def _another_on_rank_1() -> None:
    codec = hp.register_compressor(GraceTopK((0.1, 0.2)[int(os.environ["HIPRESS_RANK"])]), "grace_other")
    hp.init(timeout=20)
    hp.allreduce(torch.ones(50, 60), name="values", codec=codec)


@pytest.mark.slow
def test_ranks_that_registered_different_codecs_get_mismatch() -> None:
    for outcome in outcomes(_another_on_rank_1, 2):
        assert isinstance(outcome, Mismatch)
        assert "grace_other(error_feedback=true)#" in str(outcome)
