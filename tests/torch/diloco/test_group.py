# SPDX-License-Identifier: Apache-2.0
"""DiLoCo over a process group gives the engine's results, saves its state, and refuses wrong use."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress.torch.diloco import SparseLoCo
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _histories(folder: str, every: list[dict[str, Any]]) -> list[tuple[list[replay.Values], str]]:
    """For each of the options: the outer parameters after each of 9 steps, and the fingerprint of this rank's own
    parameters."""
    with problem.carried(folder) as (rank, carrier):
        results = []
        for options in every:
            model = models.mlp(rank, 24)  # all ranks start with rank 0's parameters
            optimizer = replay.inner_optimizer(model)
            diloco = hp.DiLoCo(model, optimizer, **options, **carrier)
            history = []
            for step in range(1, 10):
                replay.inner_step(model, optimizer, rank, step)
                with diloco.outer_parameters():
                    history.append(replay.values_of(model))
            results.append((history, models.fingerprint(model)))
            diloco.detach()
            del diloco
        return results


_OPTIONS: list[dict[str, Any]] = [
    {"sync_every": 3},
    {"sync_every": 4, "fragments": 2, "overlap_steps": 1, "mix": 0.5},
    {"preset": "sparseloco", "sync_every": 2, "codec": SparseLoCo(k=8)},
    {"preset": "sparseloco", "sync_every": 4, "fragments": 2, "overlap_steps": 1, "codec": SparseLoCo(k=8)},
    {"preset": "local_sgd", "sync_every": 2, "topology": "allgather", "codec": "bf16"},
]


@pytest.mark.parametrize("world", [2, 3])
def test_it_trains_as_over_the_engine(world: int, tmp_path: Path) -> None:
    over_engine, over_group = (run(_histories, world, folder, _OPTIONS) for folder in ("", str(tmp_path)))
    for number, options in enumerate(_OPTIONS):
        reference = over_engine[0][number][0]
        assert any(np.abs(reference[-1][name] - reference[0][name]).max() > 1e-3 for name in reference[0])
        for rank in range(world):
            history, own = over_group[rank][number]
            for step, outer in enumerate(history):
                for name, each in outer.items():
                    # The outer parameters have the same bits on all ranks.
                    assert np.array_equal(each, over_group[0][number][0][step][name])
                    # Gloo may add three values in another order than the engine does.
                    exact = world == 2 or options.get("preset") == "sparseloco"
                    np.testing.assert_allclose(each, reference[step][name], rtol=0, atol=0 if exact else 1e-6)
            if exact:
                assert own == over_engine[rank][number][1]


def _restarted(folder: str, preset: str) -> bool:
    """Whether 10 steps, and 10 steps with a restart during an exchange, end with the same bits."""
    options: dict[str, Any] = {"preset": preset, "sync_every": 4, "fragments": 2, "overlap_steps": 1}
    with problem.carried(folder) as (rank, carrier):

        def made() -> Any:
            model = models.mlp(0, 72)
            optimizer = replay.inner_optimizer(model)
            return model, optimizer, hp.DiLoCo(model, optimizer, **options, **carrier)

        model, optimizer, diloco = made()
        file = io.BytesIO()
        for step in range(10):
            if step == 6:
                torch.save([model.state_dict(), optimizer.state_dict(), diloco.state_dict()], file)
            replay.inner_step(model, optimizer, rank, step)
        own = models.fingerprint(model)
        with diloco.outer_parameters():
            outer = models.fingerprint(model)
        diloco.detach()
        file.seek(0)
        parts = torch.load(file, weights_only=True)
        again = made()
        for part, saved in zip(again, parts, strict=True):
            part.load_state_dict(saved)
        for step in range(6, 10):
            replay.inner_step(again[0], again[1], rank, step)
        same = models.fingerprint(again[0]) == own
        with again[2].outer_parameters():
            same = same and models.fingerprint(again[0]) == outer
        again[2].detach()
        del diloco, again
        return same


@pytest.mark.parametrize("preset", ["streaming", "sparseloco"])
def test_a_restart_changes_nothing(preset: str, tmp_path: Path) -> None:
    assert run(_restarted, 2, str(tmp_path), preset) == [True, True]


def _refusals(folder: str) -> None:
    with problem.carried(folder) as (rank, carrier):
        for options, error, message in (
            (
                {"topology": "hierarchical"},
                hp.InvalidArgument,
                "over sites, with one rank of each: choose 'auto', 'ps'",
            ),
            ({"codec": "powersgd"}, hp.Unsupported, "codec powersgd needs whole matrices"),
            ({"sync_every": 4 + rank}, hp.Mismatch, "the ranks differ in sync_every"),
        ):
            model = models.mlp(0, 24)
            before = models.fingerprint(model)
            with pytest.raises(error, match=message):
                hp.DiLoCo(model, replay.inner_optimizer(model), **options, **carrier)
            assert models.fingerprint(model) == before
        model = models.mlp(0, 24).double()
        with pytest.raises(hp.Unsupported, match="float32 only"):
            hp.DiLoCo(model, replay.inner_optimizer(model), **carrier)
        model = models.mlp(0, 24)
        diloco = hp.DiLoCo(model, replay.inner_optimizer(model), sync_every=2, **carrier)
        with pytest.raises(hp.InvalidArgument, match="no codec of the engine"):
            hp.codec_states(diloco)
        state = diloco.state_dict()
        if rank == 1:
            state["format"] = 99
        refused = hp.InvalidArgument if rank == 1 else hp.Mismatch
        with pytest.raises(refused, match="format 99"):
            diloco.load_state_dict(state)
        diloco.detach()
        del diloco


def test_what_it_refuses(tmp_path: Path) -> None:
    run(_refusals, 2, str(tmp_path))


def _with_a_late_rank(folder: str) -> list[str]:
    """The errors of rank 0, whose steps wait in vain, and then of rank 1, which has come too late."""
    with problem.carried(folder, timeout=4.0) as (rank, carrier):
        told = dist.distributed_c10d._get_default_store()
        said = []
        ways: list[dict[str, Any]] = [{"sync_every": 2}, {"preset": "sparseloco", "sync_every": 2}]
        for number, options in enumerate(ways):
            model = models.mlp(0, 24)
            optimizer = replay.inner_optimizer(model)
            diloco = hp.DiLoCo(model, optimizer, **options, **carrier)
            replay.inner_step(model, optimizer, rank, 1)
            if rank == 1:
                told.wait([f"raised {number}"])
            for step in (2, 3):
                try:
                    replay.inner_step(model, optimizer, rank, step)
                except hp.HipressError as error:
                    said.append(f"{type(error).__name__}: {error}")
            diloco.detach()
            told.set(f"raised {number}", "")
        return said


def test_a_rank_that_is_too_late_ends_both_in_an_error_that_comes_again(tmp_path: Path) -> None:
    waited, late = run(_with_a_late_rank, 2, str(tmp_path))
    assert len(waited) == len(late) == 4
    assert all("TransportError: the process group failed on rank 0" in each for each in waited)
    assert all(
        re.match(r"PeerLost: rank 0 of 2 has left the job \(it ended with TransportError: .* after 2 steps\)", each)
        for each in late
    )
    for said in (waited, late):
        assert said[0] == said[1]
        assert said[2] == said[3]


def _with_an_error_on_one_rank(folder: str) -> str:
    """The error of a rank's steps, where rank 0 refuses the first messages."""
    with problem.carried(folder) as (rank, carrier):
        model = models.mlp(0, 24)
        optimizer = replay.inner_optimizer(model)
        diloco = hp.DiLoCo(model, optimizer, preset="sparseloco", sync_every=2, **carrier)

        def refused(gathered: Any) -> Any:
            raise hp.CorruptPayload("a wrong checksum")

        if rank == 0:
            averaging: Any = diloco._averaging
            averaging._messages[0].averages = refused
        said = ""
        for step in range(1, 5):
            try:
                replay.inner_step(model, optimizer, rank, step)
            except hp.HipressError as error:
                said = f"{type(error).__name__} in step {step}: {error}"
        # Neither object goes before the other rank has its error.
        dist.barrier()
        return said


def test_an_error_of_one_rank_reaches_the_others_at_the_next_exchange(tmp_path: Path) -> None:
    refused, other = run(_with_an_error_on_one_rank, 2, str(tmp_path))
    assert refused == "CorruptPayload in step 4: a wrong checksum"
    why = "it ended with CorruptPayload: a wrong checksum after 2 steps"
    assert other.startswith(f"PeerLost in step 4: rank 0 of 2 has left the job ({why})")
