# SPDX-License-Identifier: Apache-2.0
"""GRACE's dictionaries select the right codec and topology, wrong ones are refused, and a step returns the average."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress import _core
from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.grace import COMPRESSORS, MEMORIES, TOPOLOGIES, WITHOUT_CODEC, grace_from_params
from tests.cases import each
from tests.torch.ranks import run


@each(
    ("params", "codec", "topology"),
    [
        ({}, "none", "ps"),
        ({"compressor": "fp16", "communicator": "allgather"}, "fp16", "allgather"),
        ({"compressor": "terngrad", "communicator": "broadcast"}, "terngrad", "allgather"),
        ({"compressor": "topk", "memory": "residual"}, "topk(ratio=0.3, error_feedback=true)", "ps"),
        ({"compressor": "topk", "compress_ratio": 0.01}, "topk(ratio=0.01, error_feedback=false)", "ps"),
        (
            {"compressor": "topk", "memory": "dgc", "compress_ratio": 0.1},
            "dgc(ratio=0.1, momentum=0.9, sample_rate=1)",
            "ps",
        ),
        ({"compressor": "dgc", "memory": "dgc", "momentum": 0.5}, "dgc(ratio=0.3, momentum=0.5)", "ps"),
        ({"compressor": "dgc"}, "dgc(ratio=0.3, momentum=0.9, error_feedback=false)", "ps"),
        ({"compressor": "dgc", "memory": "residual"}, "graddrop(ratio=0.3)", "ps"),
        ({"compressor": "efsignsgd", "memory": "efsignsgd", "lr": 0.1}, "efsignsgd(error_feedback=true)", "ps"),
        ({"compressor": "onebit"}, "onebit(error_feedback=false)", "ps"),
        ({"compressor": "natural", "memory": "residual"}, "natural(error_feedback=true)", "ps"),
        ({"compressor": "u8bit", "memory": "residual"}, "u8bit(error_feedback=true)", "ps"),
        ({"compressor": "qsgd", "quantum_num": 64}, "qsgd(levels=64, block=128, error_feedback=false)", "ps"),
        (
            {"compressor": "powersgd", "memory": "powersgd", "compress_rank": 4},
            "powersgd(rank=4, min_ratio=1, error_feedback=true)",
            "ps",
        ),
        ({"compressor": "randomk", "memory": "residual"}, "randomk(ratio=0.3, error_feedback=true)", "ps"),
        ({"compressor": "threshold", "threshold": 0.5}, "threshold(threshold=0.5, error_feedback=false)", "ps"),
    ],
)
def test_names(params: dict[str, Any], codec: str, topology: str) -> None:
    grace = grace_from_params(params)
    assert (grace.codec, grace.topology) == (codec, topology)
    assert _core.create_codec(codec).name in codec


#: By compressor: the memories that it accepts besides "none".
KEPT = {
    **dict.fromkeys(COMPRESSORS, ("residual", "efsignsgd")),
    **dict.fromkeys(("fp16", "terngrad"), ()),
    "topk": ("residual", "efsignsgd", "dgc"),
    "dgc": ("residual", "dgc"),
    "powersgd": ("residual", "efsignsgd", "powersgd"),
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_a_memory_is_error_feedback_or_refused(compressor: str, memory: str) -> None:
    params = {"compressor": compressor, "memory": memory}
    if memory == "none" or memory in KEPT[compressor]:
        states = _core.create_codec(grace_from_params(params).codec).states
        assert bool(states) == (memory != "none" and compressor != "none")
    else:
        with pytest.raises(Unsupported, match=f"'{compressor}' has no memory '{memory}'; take memory 'none', or "):
            grace_from_params(params)


@pytest.mark.parametrize("name", WITHOUT_CODEC)
def test_names_without_a_codec_say_what_there_is(name: str) -> None:
    with pytest.raises(Unsupported, match=f"'{name}' has no codec; take .*there are none, fp16, dgc, efsignsgd"):
        grace_from_params({"compressor": name})


@each(
    ("params", "message"),
    [
        ({"compressor": "zip"}, "no compressor 'zip'; there are none, fp16"),
        ({"memory": "ram"}, "no memory 'ram'; there are none, residual"),
        ({"communicator": "gossip"}, "no communicator 'gossip'; there are allreduce, allgather, broadcast"),
        ({"compresor": "topk"}, "unknown parameter 'compresor'; there are compressor, memory"),
        ({"compressor": "topk", "compress_ratio": 0.6}, "compress_ratio 0.6"),
        ({"compressor": "randomk", "compress_ratio": 0}, "compress_ratio 0"),
        ({"compressor": "topk", "gradient_clipping": True}, "gradient_clipping"),
    ],
)
def test_wrong_dictionaries(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        grace_from_params(params)


def test_a_value_out_of_range_is_the_codecs_error() -> None:
    with pytest.raises(InvalidArgument, match="option levels is 256"):
        grace_from_params({"compressor": "qsgd", "quantum_num": 256})


def _steps() -> list[tuple[int, float, float]]:
    hp.init()
    values = torch.arange(10000, dtype=torch.float32).view(100, 100) * (1 + hp.rank())
    average = 1.5 * values / (1 + hp.rank())
    found = []
    for params in ({}, {"compressor": "topk", "compress_ratio": 0.01, "memory": "residual"}):
        for communicator in ("allreduce", "allgather"):
            grace = grace_from_params({**params, "communicator": communicator, "world_size": 2})
            result = grace.step(values, f"{communicator} of {len(params)}")
            assert result.shape == values.shape
            sent = result != 0
            found.append((int(sent.sum()), result.max().item(), (result - average)[sent].abs().max().item()))
    low_rank = grace_from_params({"compressor": "powersgd", "memory": "powersgd", "compress_rank": 2})
    for _ in range(3):  # the matrix has rank 2, so PowerSGD reaches it exactly
        torch.testing.assert_close(low_rank.step(values, "low rank"), average, rtol=1e-5, atol=0.05)
    with pytest.raises(InvalidArgument, match="world_size 3, but there are 2 ranks"):
        grace_from_params({"world_size": 3})
    return found


@pytest.mark.slow
def test_a_step_returns_the_average_over_the_ranks() -> None:
    first, second = run(_steps, 2)
    assert first == second
    dense, gathered, sparse, gathered_sparse = first
    assert dense == gathered == (9999, 14998.5, 0.0)
    assert sparse == gathered_sparse == (100, 14998.5, 0.0)


def test_topologies_exist() -> None:
    assert set(TOPOLOGIES.values()) <= {"ps", "ring", "allgather", "hierarchical"}
