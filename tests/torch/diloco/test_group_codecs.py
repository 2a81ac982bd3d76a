# SPDX-License-Identifier: Apache-2.0
"""DiLoCo over a process group with codecs that hold values back: nothing of it is lost in a saved state."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.torch.diloco.group_averaging import GroupAveraging
from hipress.torch.diloco.left_ranks import LeftRanks
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_HIDDEN = 72


def _made(carrier: dict[str, Any], **options: Any) -> Any:
    model = models.mlp(0, _HIDDEN)
    optimizer = replay.inner_optimizer(model)
    return model, optimizer, hp.DiLoCo(model, optimizer, **{"sync_every": 2, "codec": "onebit", **options}, **carrier)


def _fingerprints(made: Any) -> list[str]:
    model, _, diloco = made
    own = models.fingerprint(model)
    with diloco.outer_parameters():
        return [own, models.fingerprint(model)]


def _mass(state: dict[str, Any]) -> dict[str, Any]:
    """Of each parameter, what the next averages get of this rank's residuals."""
    codecs = state["codecs"]
    held = {name: np.zeros(each.numel()) for name, each in state["parameters"].items()}
    for key, each in codecs["states"].items():
        name, role, first, count = key.split("\n")
        share = 1.0 if role in ("aggregator", "unsent average") else 1 / codecs["world"]
        held[name][int(first) : int(first) + int(count)] += share * each["residual"].double().numpy()
    return held


def _restarted(folder: str, topology: str, codec: str) -> tuple[list[list[str]], bool]:
    """Fingerprints of 10 steps, and of as many with a restart during an exchange; whether residuals were in it."""
    options = {"topology": topology, "codec": codec, "sync_every": 4, "fragments": 2, "overlap_steps": 1}
    with problem.carried(folder) as (rank, carrier):
        made = _made(carrier, **options)
        file = io.BytesIO()
        for step in range(10):
            if step == 6:
                torch.save([each.state_dict() for each in made], file)
            replay.inner_step(made[0], made[1], rank, step)
        results = [_fingerprints(made)]
        made[2].detach()
        file.seek(0)
        parts = torch.load(file, weights_only=True)
        made = _made(carrier, **options)
        for step in range(4):
            replay.inner_step(made[0], made[1], rank, 50 + step)  # forgotten
        for part, saved in zip(made, parts, strict=True):
            part.load_state_dict(saved)
        for step in range(6, 10):
            replay.inner_step(made[0], made[1], rank, step)
        results.append(_fingerprints(made))
        made[2].detach()
        return results, parts[2]["codecs"] is not None and any(each.any() for each in _mass(parts[2]).values())


@pytest.mark.parametrize(
    ("topology", "codec", "holds"),
    [
        ("ps", "onebit", True),
        ("allgather", "dgc(ratio=0.05)", True),
        ("ps", "int8(error_feedback=true)", True),
        ("ps", "terngrad", False),  # random, and holds nothing back
    ],
)
def test_a_restart_changes_nothing(topology: str, codec: str, holds: bool, tmp_path: Path) -> None:
    ranks = run(_restarted, 2, str(tmp_path), topology, codec)
    for (through, restored), held in ranks:
        assert restored == through
        assert held == holds
    assert len({outer for (through, _), _ in ranks for outer in through[1:]}) == 1


def _saved(folder: str) -> dict[str, Any]:
    with problem.carried(folder) as (rank, carrier):
        made = _made(carrier)
        for step in range(4):
            replay.inner_step(made[0], made[1], rank, step)
        made[2].detach()
        state: dict[str, Any] = made[2].state_dict()
        return state


def _loaded(folder: str, old: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    with problem.carried(folder) as (rank, carrier):
        made = _made(carrier)
        made[2].load_state_dict(old)
        state = made[2].state_dict()
        for step in range(4, 8):
            replay.inner_step(made[0], made[1], rank, step)
        made[2].detach()
        return state, _fingerprints(made)[1]


def test_another_number_of_ranks_loses_nothing(tmp_path: Path) -> None:
    for name in ("4", "3", "2"):
        (tmp_path / name).mkdir()
    old = run(_saved, 4, str(tmp_path / "4"))
    masses = [_mass(each) for each in old]
    wanted = {name: sum(each[name] for each in masses) for name in masses[0]}
    assert all(np.abs(wanted[name]).max() > 1e-4 for name in ("0.weight", "2.weight"))
    for world in (2, 3):
        new = run(_loaded, world, str(tmp_path / str(world)), old)
        assert len({fingerprint for _, fingerprint in new}) == 1
        kept = [_mass(state) for state, _ in new]
        for name, each in wanted.items():
            np.testing.assert_allclose(sum(one[name] for one in kept), each, rtol=0, atol=1e-6)


def _refusals(folder: str) -> None:
    with problem.carried(folder) as (rank, carrier):
        made = _made(carrier)
        for step in range(4):
            replay.inner_step(made[0], made[1], rank, step)
        good = made[2].state_dict()

        def other(**codecs: Any) -> dict[str, Any]:
            return {**good, "codecs": {**good["codecs"], **codecs}}

        key = next(iter(good["codecs"]["states"]))
        unknown = {key.replace("weight", "gone"): good["codecs"]["states"][key]}
        for state, message in (
            (other(rank=1 - rank), f"of rank {1 - rank} of 2, and this is rank {rank} of 2"),
            (other(world=3), f"of rank {rank} of 3"),
            (other(states=unknown), "which the model does not have"),
            ([good, good], "give the states of all old ranks"),
            ([good, {**good, "codecs": None}], "some of the states lack"),
        ):
            # The other rank's state is good, and it forgets it again.
            given = state if rank == 0 else copy.deepcopy(good)
            with pytest.raises(hp.InvalidArgument if rank == 0 else hp.Mismatch, match=message if rank == 0 else ""):
                made[2].load_state_dict(given)
            assert str(made[2].state_dict()) == str(good)
        plain = _made(carrier, codec="none")
        with pytest.raises(hp.InvalidArgument if rank == 0 else hp.Mismatch):
            plain[2].load_state_dict(other(world=3) if rank == 0 else good)
        assert plain[2].state_dict()["codecs"] is None or plain[2].state_dict()["codecs"]["states"] == {}
        hp.init()
        engine = _made({})
        with pytest.raises(hp.InvalidArgument, match=r"DiLoCo\(\) would not send: give it a process group, with any"):
            engine[2].load_state_dict(good)
        made[2].load_state_dict({**good, "codecs": None})  # of another codec: nothing was held back
        assert made[2].state_dict()["codecs"]["states"] == {}
        for each in (made, plain, engine):
            each[2].detach()


def test_what_does_not_go_together_changes_nothing(tmp_path: Path) -> None:
    run(_refusals, 2, str(tmp_path))


def _another_codec(folder: str, codec: str) -> list[dict[str, Any]]:
    """What this rank holds back at the end of a job with onebit, in a job with the codec that has loaded the state of
    that, and after an exchange of this one."""
    with problem.carried(folder) as (rank, carrier):
        made = _made(carrier)
        for step in range(4):
            replay.inner_step(made[0], made[1], rank, step)
        made[2].detach()
        masses = [_mass(made[2].state_dict())]
        later = _made(carrier, codec=codec)
        for place in range(3):
            later[place].load_state_dict(made[place].state_dict())
        masses.append(_mass(later[2].state_dict()))
        for step in range(4, 6):
            replay.inner_step(later[0], later[1], rank, step)
        masses.append(_mass(later[2].state_dict()))
        later[2].detach()
        return masses


@pytest.mark.parametrize("codec", ["none", "int8"])
def test_a_codec_that_holds_nothing_back_sends_what_the_one_before_held_back(codec: str, tmp_path: Path) -> None:
    for before, loaded, after in run(_another_codec, 2, str(tmp_path), codec):
        assert max(np.abs(each).max() for each in before.values()) > 1e-4
        for name, each in before.items():
            np.testing.assert_allclose(loaded[name], each, rtol=1e-6, atol=0)
            assert not after[name].any()


def _sums(folder: str) -> tuple[float, float]:
    """How far the sum of averages is from the exact one: after exchanges with onebit, and after one without a codec."""
    with problem.carried(folder) as (rank, carrier):
        parameters = {"w": torch.empty(60, 100)}
        lacking = torch.zeros(60, 100)

        def exchange(averaging: GroupAveraging, number: int) -> float:
            each = [torch.randn(60, 100, generator=torch.Generator().manual_seed(10 * number + one)) for one in (0, 1)]
            average = averaging.start(0, {"w": each[rank].clone()}, 0)()["w"]
            lacking.add_(sum(each) / 2 - average)
            return float(lacking.abs().max())

        given = carrier["group"], LeftRanks(carrier["group"])
        before, after = (GroupAveraging(parameters, codec, "ps", *given) for codec in ("onebit", "none"))
        held_back = [exchange(before, number) for number in range(3)]
        states = before.codec_states()
        assert states is not None
        after.load_codec_states([states])
        return held_back[-1], exchange(after, 3)


def test_the_average_without_a_codec_has_all_of_it(tmp_path: Path) -> None:
    for held_back, left in run(_sums, 2, str(tmp_path)):
        assert held_back > 0.1
        assert left < 1e-5
