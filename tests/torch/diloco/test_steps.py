# SPDX-License-Identifier: Apache-2.0
"""Every outer step equals the papers' step, and the outer parameters have the same bits on all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _history(steps: int, options: dict[str, Any]) -> tuple[list[list[str]], list[tuple[replay.Values, replay.Values]]]:
    """The fragments, and after each step the outer parameters and this rank's own parameters."""
    hp.init()
    model = models.mlp(hp.rank(), 24)  # all ranks start with rank 0's parameters
    optimizer = replay.inner_optimizer(model)
    diloco = hp.DiLoCo(model, optimizer, **options)
    history = []
    for step in range(1, steps + 1):
        replay.inner_step(model, optimizer, hp.rank(), step)
        own = replay.values_of(model)
        with diloco.outer_parameters():
            outer = replay.values_of(model)
        assert all(np.array_equal(own[name], each) for name, each in replay.values_of(model).items())
        history.append((outer, own))
    return diloco.fragments, history


@pytest.mark.parametrize(
    ("world", "options"),
    [
        (2, {"sync_every": 3}),
        (4, {"sync_every": 4, "overlap_steps": 3}),
        (2, {"sync_every": 6, "fragments": 3, "overlap_steps": 1, "mix": 0.5}),
        (4, {"sync_every": 4, "fragments": 2, "topology": "ring"}),
        (2, {"sync_every": 4, "fragments": [["4", "0.bias"], ["0.weight", "2"]], "mix": 0.25}),
        (2, {"sync_every": 6, "fragments": 3, "preset": "streaming"}),
    ],
)
def test_every_step_is_that_of_the_paper(world: int, options: dict[str, Any]) -> None:
    ranks = run(_history, world, 13, options)
    constants = {"sync_every": options["sync_every"]}
    if options.get("preset") == "streaming":
        constants |= {"overlap_steps": 1, "mix": 0.5}
    constants |= {key: options[key] for key in ("overlap_steps", "mix") if key in options}
    expected = replay.replayed(world, 13, ranks[0][0], **constants)
    start = expected[0][0]
    assert any(np.abs(expected[-1][0][name] - start[name]).max() > 1e-3 for name in start)
    for rank, (_, history) in enumerate(ranks):
        for step, (outer, own) in enumerate(history):
            for name, each in outer.items():
                assert np.array_equal(each, ranks[0][1][step][0][name])
                np.testing.assert_allclose(each, expected[step][0][name], rtol=0, atol=1e-6)
                np.testing.assert_allclose(own[name], expected[step][1][rank][name], rtol=0, atol=1e-6)


def _plain_averaging(world: int, steps: int) -> list[replay.Values]:
    replicas = [models.mlp(0, 24) for _ in range(world)]
    optimizers = [replay.inner_optimizer(model) for model in replicas]
    history = []
    for step in range(1, steps + 1):
        for rank, (model, optimizer) in enumerate(zip(replicas, optimizers, strict=True)):
            replay.inner_step(model, optimizer, rank, step)
        with torch.no_grad():
            for same in zip(*(model.parameters() for model in replicas), strict=True):
                average = torch.stack(list(same)).mean(0)
                for each in same:
                    each.copy_(average)
        history.append(replay.values_of(replicas[0]))
    return history


def test_local_sgd_at_every_step_averages_the_parameters() -> None:
    expected = _plain_averaging(2, 8)
    for _, history in run(_history, 2, 8, {"preset": "local_sgd", "sync_every": 1}):
        for step, (outer, own) in enumerate(history):
            for name, each in expected[step].items():
                assert np.array_equal(outer[name], own[name])
                np.testing.assert_allclose(own[name], each, rtol=0, atol=1e-6)


def _with_codec(codec: str) -> tuple[str, str, float]:
    """Fingerprints of the outer and of this rank's own parameters after 12 steps, and the loss with the outer
    parameters."""
    hp.init()
    model = models.mlp(hp.rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    diloco = hp.DiLoCo(model, optimizer, outer, sync_every=4, fragments=2, overlap_steps=1, mix=0.5, codec=codec)
    for step in range(12):
        replay.inner_step(model, optimizer, hp.rank(), step)
    own = models.fingerprint(model)
    with diloco.outer_parameters(), torch.no_grad():
        return models.fingerprint(model), own, float(models.loss(model, 0, 100))


@pytest.mark.parametrize("codec", ["none", "fp16", "onebit", "terngrad(bitwidth=4)", "dgc(ratio=0.05)"])
def test_the_outer_parameters_are_the_same_bits_on_all_ranks(codec: str) -> None:
    ranks = run(_with_codec, 4, codec)
    assert len({outer for outer, _, _ in ranks}) == 1
    assert len({own for _, own, _ in ranks}) == 4  # each rank mixes in its own parameters
    with torch.no_grad():
        assert ranks[0][2] < float(models.loss(models.mlp(0), 0, 100))  # the training lowers the loss


def _until_a_rank_leaves() -> list[str]:
    """The errors that rank 0's steps raise after rank 1 has left, and whether the outer parameters stayed unchanged."""
    hp.init()
    model = models.mlp(0, 24)
    optimizer = replay.inner_optimizer(model)
    diloco = hp.DiLoCo(model, optimizer, sync_every=2)
    for step in range(2):
        replay.inner_step(model, optimizer, hp.rank(), step)
    if hp.rank() == 1:
        hp.shutdown()
        return []
    before = diloco.state_dict()["parameters"]
    raised = []
    for step in range(2, 5):
        try:
            replay.inner_step(model, optimizer, 0, step)
        except hp.Mismatch as error:  # not PeerLost: the rank has ended regularly, with fewer steps
            raised.append(str(error))
    with diloco.outer_parameters():
        assert all(torch.equal(before[name], each) for name, each in model.named_parameters())
    return raised


def test_a_lost_rank_is_an_error_that_names_it_and_stays() -> None:
    raised, _ = run(_until_a_rank_leaves, 2)
    assert len(raised) == 2  # the step that needed rank 1, and the next step
    assert raised[0] == raised[1]
    assert "1" in raised[0]
