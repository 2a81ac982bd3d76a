# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo: every outer step equals the paper's step, replayed in NumPy; it sends the promised bytes, and saves its
residuals."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.torch.diloco import SparseLoCo
from hipress.torch.diloco.ranks import EngineRanks
from hipress.torch.diloco.sparseloco import SparseAveraging
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.ranks import run

#: A width that gives tiles of 36 × 36 elements, and a vector of two tiles.
_HIDDEN = 72


def _made(hidden: int = _HIDDEN, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, hp.DiLoCo]:
    model = models.mlp(hp.rank(), hidden)
    optimizer = replay.inner_optimizer(model)
    return model, optimizer, hp.DiLoCo(model, optimizer, preset="sparseloco", **{"sync_every": 2, **options})


def _outer(model: nn.Module, diloco: hp.DiLoCo) -> replay.Values:
    with diloco.outer_parameters():
        return replay.values_of(model)


def _history(steps: int, options: dict[str, Any]) -> tuple[list[list[str]], list[replay.Values], replay.Values]:
    """The fragments, the outer parameters after each step, and this rank's residuals at the end."""
    hp.init()
    model, optimizer, diloco = _made(**options)
    history = []
    for step in range(1, steps + 1):
        replay.inner_step(model, optimizer, hp.rank(), step)
        history.append(_outer(model, diloco))
    residuals = diloco.state_dict()["residuals"]
    assert (residuals["rank"], residuals["world"]) == (hp.rank(), hp.size())
    return diloco.fragments, history, {name: each.numpy() for name, each in residuals["values"].items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "options"),
    [
        (2, {}),
        (4, {"sync_every": 4, "fragments": 2, "overlap_steps": 1, "codec": SparseLoCo(decay=0.9)}),
    ],
)
def test_every_step_is_that_of_the_paper(world: int, options: dict[str, Any]) -> None:
    ranks = run(_history, world, 9, options)
    constants = {"sync_every": options.get("sync_every", 2), "overlap_steps": options.get("overlap_steps", 0)}
    decay = 0.9 if "codec" in options else 0.95
    expected = replay.replayed(world, 9, ranks[0][0], lr=1.0, momentum=0.0, hidden=_HIDDEN, decay=decay, **constants)
    start = expected[0][0]
    assert any(np.abs(expected[-1][0][name] - start[name]).max() > 1e-3 for name in start)
    for _, history, residuals in ranks:
        for step, outer in enumerate(history):
            for name, each in outer.items():
                assert np.array_equal(each, ranks[0][1][step][name])
                np.testing.assert_allclose(each, expected[step][0][name], rtol=0, atol=1e-5)
        assert any(residuals[name].any() for name in residuals)
    assert not np.array_equal(ranks[0][2]["2.weight"], ranks[1][2]["2.weight"])


def _sent(preset: str) -> int:
    """The bytes that this rank sends in the second exchange of 1,052,672 parameters."""
    hp.init()
    model = nn.Sequential(nn.Linear(1024, 512), nn.Linear(512, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hp.DiLoCo(model, optimizer, preset=preset, sync_every=1)
    for step in range(2):
        before = hp.counters()["bytes_sent"]
        for each in model.parameters():
            each.grad = torch.randn(each.shape, generator=torch.Generator().manual_seed(10 * step + hp.rank()))
        optimizer.step()
    return hp.counters()["bytes_sent"] - before


@pytest.mark.slow
@pytest.mark.parametrize(("world", "fewer"), [(2, 230), (4, 115)])
def test_a_rank_sends_less_than_a_hundredth_of_diloco(world: int, fewer: int) -> None:
    dense, sparse = (max(run(_sent, world, preset)) for preset in ("diloco", "sparseloco"))
    parameters = 2 * 1024 * 512 + 1024 + 512
    assert dense >= 4 * parameters
    assert sparse > (world - 1) * parameters * 8 / 8 / 64
    assert sparse <= dense / fewer


def _resumed(stop: int) -> list[str]:
    """Fingerprints after 12 steps, and after 12 steps with a pause after `stop`."""
    hp.init()
    options = {"sync_every": 4, "fragments": 2, "overlap_steps": 1}
    model, optimizer, diloco = _made(**options)
    for step in range(12):
        if step == stop:
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict(), diloco.state_dict()], file)
        replay.inner_step(model, optimizer, hp.rank(), step)
    through = models.fingerprint(model)
    diloco.detach()
    file.seek(0)
    parameters, moments, state = torch.load(file, weights_only=True)
    model, optimizer, diloco = _made(**options)
    for step in range(3):
        replay.inner_step(model, optimizer, hp.rank(), 50 + step)  # loading forgets these steps
    diloco.load_state_dict(state)
    model.load_state_dict(parameters)
    optimizer.load_state_dict(moments)
    for step in range(stop, 12):
        replay.inner_step(model, optimizer, hp.rank(), step)
    return [through, models.fingerprint(model)]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [6, 7], ids=["during an exchange", "between exchanges"])
def test_a_restart_changes_nothing(stop: int) -> None:
    for through, restored in run(_resumed, 2, stop):
        assert restored == through


def _saved() -> dict[str, Any]:
    hp.init()
    model, optimizer, diloco = _made()
    for step in range(4):
        replay.inner_step(model, optimizer, hp.rank(), step)
    return diloco.state_dict()


def _loaded(old: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    hp.init()
    model, optimizer, diloco = _made()
    diloco.load_state_dict(old)
    state = diloco.state_dict()
    for step in range(4, 8):
        replay.inner_step(model, optimizer, hp.rank(), step)
    with diloco.outer_parameters():
        return state, models.fingerprint(model)


@pytest.mark.slow
def test_another_number_of_ranks_goes_on_with_the_mean_of_all_residuals() -> None:
    old = run(_saved, 4)
    for world in (2, 4):
        new = run(_loaded, world, old)
        assert len({fingerprint for _, fingerprint in new}) == 1
        for rank, (state, _) in enumerate(new):
            for name, each in state["residuals"]["values"].items():
                mean = torch.stack([state["residuals"]["values"][name] for state in old]).double().mean(0)
                wanted = old[rank]["residuals"]["values"][name] if world == 4 else mean.float()
                torch.testing.assert_close(each, wanted, rtol=1e-6, atol=1e-9)


def _refusals() -> None:
    hp.init()
    model, optimizer, diloco = _made()
    with pytest.raises(hp.InvalidArgument, match="state_dict"):
        hp.codec_states(diloco)
    for step in range(4):
        replay.inner_step(model, optimizer, hp.rank(), step)
    good = diloco.state_dict()

    def other(**residuals: Any) -> dict[str, Any]:
        return {**good, "residuals": {**good["residuals"], **residuals}}

    def values(name: str, each: torch.Tensor) -> dict[str, Any]:
        return other(values={**good["residuals"]["values"], name: each})

    moved = copy.deepcopy(good)
    moved["parameters"]["0.bias"] += 1
    for state, message in [
        (other(rank=1, world=1), "rank 1 of 1, and this is rank 0 of 1"),
        (other(world=2), "rank 0 of 2, and this is rank 0 of 1"),
        (other(values={}), "residuals lack '0.weight'"),
        (values("0.bias", torch.zeros(3)), "'0.bias' is of torch.float32 and shape"),
        (values("0.bias", torch.full((_HIDDEN,), torch.nan)), "'0.bias' is not finite"),
        (values("6.bias", torch.zeros(3)), "have '6.bias'"),
        ({**good, "residuals": {"rank": 0}}, "lack rank, world or values"),
        ([], "list of states is empty"),
        ([good, good], "state 0 of 2 is of rank 0 of 1"),
        ([other(world=2), other(rank=0, world=2)], "state 1 of 2 is of rank 0 of 2"),
        ([other(world=2), {**good, "residuals": None}], "some have none"),
        (
            [other(world=2), {**moved, "residuals": {**good["residuals"], "rank": 1, "world": 2}}],
            "states 0 and 1 differ",
        ),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            diloco.load_state_dict(state)
        assert str(diloco.state_dict()) == str(good)
    diloco.load_state_dict({**good, "residuals": None})  # a state of another codec has no residuals
    assert not any(each.any() for each in diloco.state_dict()["residuals"]["values"].values())
    dense_model = models.mlp(0, _HIDDEN)
    dense = hp.DiLoCo(dense_model, replay.inner_optimizer(dense_model), preset="local_sgd", sync_every=2)
    with pytest.raises(hp.InvalidArgument, match="residuals of SparseLoCo, which this codec would not send"):
        dense.load_state_dict(good)
    for options, message in [
        ({"codec": 3}, "codec=3"),
        ({"topology": "ring"}, "topology='ring'"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            _made(**options)


@pytest.mark.slow
def test_what_does_not_go_together_changes_nothing() -> None:
    run(_refusals, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": -0.1}, "decay=-0.1"),
        ({"decay": 1.5}, "decay=1.5"),
        ({"decay": float("nan")}, "decay=nan"),
        ({"decay": True}, "decay=True"),
        ({"k": 0}, "k=0"),
        ({"k": 4097}, "k=4097"),
        ({"k": 2.0}, "k=2.0"),
        ({"adaptive": 1}, "adaptive=1"),
    ],
)
def test_numbers_that_make_no_sparseloco_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hp.InvalidArgument, match=message):
        SparseLoCo(**options)


def _differing() -> None:
    hp.init()
    with pytest.raises(hp.Mismatch, match="codec, topology"):
        _made(codec=SparseLoCo(k=8 + hp.rank()))
    model, optimizer, diloco = _made()
    for step in range(2):
        replay.inner_step(model, optimizer, hp.rank(), step)
    good = diloco.state_dict()
    before = str(good["residuals"])
    if hp.rank() == 1:
        with torch.no_grad():
            next(model.parameters())[0, 0] = torch.nan
    for _ in range(2):
        optimizer.zero_grad()
        optimizer.step()
    outer = _outer(model, diloco)
    assert np.isnan(outer["0.weight"]).all()  # the NaN reaches both ranks
    state = diloco.state_dict()
    first = state["residuals"]["values"]["0.weight"]
    # Rank 1's values were not finite, so it kept its residual. Rank 0 sent finite values, so its residual changed.
    assert first.isfinite().all()
    assert torch.equal(first, good["residuals"]["values"]["0.weight"]) == (hp.rank() == 1)
    assert str(state["residuals"]) != before or hp.rank() == 1


@pytest.mark.slow
def test_a_nan_reaches_every_rank_and_no_residual() -> None:
    run(_differing, 2)


def _until_a_rank_leaves() -> bool:
    hp.init()
    averaging = SparseAveraging({"w": torch.zeros(70, 70)}, [["w"]], SparseLoCo())
    averaging.enter(EngineRanks())
    averaging.start(0, {"w": torch.randn(70, 70)}, 0)()
    if hp.rank() == 1:
        hp.shutdown()
        return True
    before = averaging.residuals()["w"].clone()
    with pytest.raises(hp.PeerLost, match="1"):
        averaging.start(0, {"w": torch.randn(70, 70)}, 0)()
    return bool(before.any()) and torch.equal(averaging.residuals()["w"], before)


@pytest.mark.slow
def test_an_exchange_that_fails_changes_no_residual() -> None:
    assert all(run(_until_a_rank_leaves, 2))
