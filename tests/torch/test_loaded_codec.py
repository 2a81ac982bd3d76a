# SPDX-License-Identifier: Apache-2.0
"""Loaded codecs work in a training by name, like built-in codecs, and ranks with different programs get an error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import hipress
import hipress.torch as hp
from hipress.errors import Mismatch
from tests.tiers import thorough
from tests.torch import ranks

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "compll"
COUNT = 50_000

PROGRAM = """
void ScaledEncode(float* gradient, uint8* compressed) {
    compressed = concat(map(gradient, [&](float x) -> float { return x * FACTOR; }));
}
void ScaledDecode(uint8* compressed, float* gradient) {
    extract(compressed, float value[gradient.size]);
    gradient = map(value, [&](float x) -> float { return x / FACTOR; });
}
"""


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache of compiled codecs that all tests of the session share."""
    return str(tmp_path_factory.getbasetemp() / "codecs")


def values_of(rank: int) -> torch.Tensor:
    return torch.randn(COUNT, generator=torch.Generator().manual_seed(rank))


def sums(name: str, text: str, steps: int) -> torch.Tensor:
    """The sum of the results when the same values are synchronised `steps` times."""
    assert hipress.load_codec(EXAMPLES / f"{name}.cll") == name
    hp.init()
    total = torch.zeros(COUNT)
    for _ in range(steps):
        total += hp.allreduce(values_of(hp.rank()), name="values", codec=text)
    return total


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [("blockquant4", "blockquant4(block=64)", 3), thorough("adacomp", "adacomp(bin=20, limit=0.2)", 60)],
)
def test_allreduce(name: str, text: str, steps: int, cache: str) -> None:
    """Error feedback sends residuals later, so the mean over the steps approaches the mean over the ranks."""
    first, second = ranks.run(sums, 2, name, text, steps, HIPRESS_CACHE=cache)
    assert torch.equal(first, second)
    expected = (values_of(0) + values_of(1)) / 2
    error = (first / steps - expected).norm() / expected.norm()
    assert 0 < error < 0.1


def train(codec: str) -> tuple[float, float, list[torch.Tensor], int]:
    """The first and last loss of a small training, its final parameters, and the bytes sent."""
    hipress.load_codec(EXAMPLES / f"{codec}.cll")
    hp.init()
    torch.manual_seed(hp.rank())
    inputs = torch.randn(256, 64)
    labels = inputs[:, :8].argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters(), codec=codec, min_compress_bytes=0
    )
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1], [p.detach() for p in model.parameters()], hp.counters()["bytes_sent"]


@pytest.mark.parametrize("codec", ["blockquant4", "adacomp"])
def test_training(codec: str, cache: str) -> None:
    results = ranks.run(train, 2, codec, HIPRESS_CACHE=cache)
    for first, last, _, sent in results:
        assert last < 0.5 * first
        assert sent < 80 * 9352 * 4 / 4  # a quarter of the gradients' bytes
    assert all(torch.equal(left, right) for left, right in zip(results[0][2], results[1][2], strict=True))


def synchronise_own(paths: list[str]) -> Any:
    hipress.load_codec(paths[int(os.environ["HIPRESS_RANK"])])
    hp.init(timeout=20)
    return hp.allreduce(values_of(hp.rank()), name="own", codec="scaled")


def test_ranks_with_different_programs_of_one_name_notice(tmp_path: Path, cache: str) -> None:
    paths = []
    for factor in ("2", "4"):
        paths.append(str(tmp_path / f"{factor}.cll"))
        Path(paths[-1]).write_text(PROGRAM.replace("FACTOR", factor))
    for outcome in ranks.outcomes(synchronise_own, 2, paths, HIPRESS_CACHE=cache):
        assert isinstance(outcome, Mismatch)
        assert "scaled#" in str(outcome)


def test_operators(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hipress.torch import codec_operators

    monkeypatch.setenv("HIPRESS_CACHE", cache)
    codec_operators.register(hipress.load_codec(EXAMPLES / "blockquant4.cll"))
    operators, values, residual = torch.ops.hipress, values_of(0), torch.zeros(COUNT)
    message = operators.blockquant4_encode(values, residual)
    torch.testing.assert_close(operators.blockquant4_decode(message, COUNT) + residual, values)
