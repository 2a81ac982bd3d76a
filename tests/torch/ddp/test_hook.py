# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with HiPress's hook: without a codec the step is exact; with one, replicas stay identical and
learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tiers import thorough
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

CODECS = [
    "fp16",
    "onebit",
    "tbq",
    "terngrad",
    "dgc(ratio=0.05)",
    "graddrop",
    "bf16",
    "int8",
    "int4",
    "powersgd(rank=2)",
]
#: One of each kind; the other ways to exchange messages get these only.
FEW = ["fp16", "onebit", "dgc(ratio=0.05)", "int8", "powersgd(rank=2)"]
FLAGS: list[dict[str, Any]] = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"find_unused_parameters": True},
]


def _trained(tmp_path: Path, world: int, hook: dict[str, Any] | None, *arguments: Any) -> list[tuple[bytes, float]]:
    folder = tmp_path / str(sum(1 for _ in tmp_path.iterdir()))
    folder.mkdir()
    results: list[tuple[bytes, float]] = run(training.train, world, str(folder), hook, *arguments)
    return results


@pytest.mark.parametrize("world", [2, 4])
def test_without_a_codec_it_is_ddp_to_the_bit(tmp_path: Path, world: int) -> None:
    for flags in FLAGS:
        plain = _trained(tmp_path, world, None, 6, flags)
        hooked = _trained(tmp_path, world, {"codec": "none"}, 6, flags)
        assert [parameters for parameters, _ in hooked] == [parameters for parameters, _ in plain], flags


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The loss after training without compression."""
    (_, loss), *_ = _trained(tmp_path_factory.mktemp("exact"), 3, None, 20)
    return loss


@pytest.mark.parametrize(
    ("carrier", "topology", "codecs"),
    [
        ("group", "ps", CODECS),
        thorough("hipress", "ps", FEW),
        thorough("group", "allgather", FEW),
        ("hipress", "allgather", FEW),
    ],
    ids=["group-ps", "hipress-ps", "group-allgather", "hipress-allgather"],
)
def test_with_a_codec_replicas_are_identical_and_learn(
    tmp_path: Path, exact: float, carrier: str, topology: str, codecs: list[str]
) -> None:
    for codec in codecs:
        hook = {"codec": codec, "carrier": carrier, "topology": topology}
        results = _trained(tmp_path, 3, hook, 20)
        assert len({parameters for parameters, _ in results}) == 1, codec
        assert results[0][1] < exact + 0.5, codec


def test_both_carriers_average_alike(tmp_path: Path) -> None:
    """The carriers choose other owners, and an owner does not encode its own values. So fp16 rounds other values in a
    step."""
    group = _trained(tmp_path, 2, {"codec": "fp16", "carrier": "group"}, 1)
    engine = _trained(tmp_path, 2, {"codec": "fp16", "carrier": "hipress"}, 1)
    for (ours, _), (theirs, _) in zip(group, engine, strict=True):
        a = torch.frombuffer(bytearray(ours), dtype=torch.float32)
        b = torch.frombuffer(bytearray(theirs), dtype=torch.float32)
        torch.testing.assert_close(a, b, rtol=0, atol=0.01 * 2.0**-10)  # the learning rate times fp16's precision
