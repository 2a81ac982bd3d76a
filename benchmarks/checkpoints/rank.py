# SPDX-License-Identifier: Apache-2.0
"""One rank of checkpoints.py: it does one leg of a training."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import hipress
import hipress.torch as hp
from benchmarks.checkpoints.job import SEQUENCES, Job, Leg, Trained
from benchmarks.checkpoints.mean_residual import mean_residual
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.optimizers.job import trials
from benchmarks.optimizers.model import CharacterModel, Text, loss, read_text
from benchmarks.optimizers.trial_optimizers import synchronizing

#: Deadline of waits (seconds), generous because other work may delay a rank.
_TIMEOUT = 300.0
#: The loss is measured so many times in a training.
_JUDGED = 6


class ReplicasDiffer(Exception):
    """The ranks' parameters differ after a leg, so it has no result."""


def _batch(text: Text, seed: int, step: int) -> torch.Tensor:
    """This rank's part of the step's sequences, which do not depend on the number of ranks."""
    every = text.batch(SEQUENCES, torch.Generator().manual_seed(1_000_000 * seed + step))
    return every[dist.get_rank() :: dist.get_world_size()]


def _save(path: str, model: nn.Module, optimizer: Any) -> None:
    """Writes a checkpoint as docs/guide/checkpoints.md does, and with it the mean residual, to compare."""
    states, residual = hp.codec_states(optimizer), mean_residual(optimizer)
    if dist.get_rank() == 0:
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "codecs": states}
        with hipress.whole_file(path) as file:
            torch.save({**saved, "residual": torch.from_numpy(residual)}, file)
    dist.barrier()


def _load(leg: Leg, model: nn.Module, optimizer: Any) -> dict[str, float]:
    """Goes on from a checkpoint. Returns the norms and the error of Trained; empty without residuals."""
    saved = torch.load(leg.load, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if not leg.keeps_residuals:
        return {}
    hp.load_codec_states(optimizer, saved["codecs"])
    before, after = saved["residual"].numpy(), mean_residual(optimizer)
    norm = float(np.linalg.norm(before))
    return {
        "saved_norm": norm,
        "loaded_norm": float(np.linalg.norm(after)),
        "load_error": float(np.linalg.norm(after - before)) / norm,
    }


def _train(leg: Leg, model: nn.Module, optimizer: Any, text: Text) -> dict[str, float]:
    """Does the steps of the leg. Returns the losses by the number of steps."""
    losses: dict[str, float] = {}
    every = max(1, leg.steps // _JUDGED)
    for step in range(leg.first, leg.last):
        if leg.save and step == leg.save_at:
            _save(leg.save, model, optimizer)
        optimizer.zero_grad()
        loss(model, _batch(text, leg.seed, step)).backward()
        optimizer.step()
        if (step + 1) % every == 0 and dist.get_rank() == 0:
            with torch.no_grad():
                losses[str(step + 1)] = loss(model, text.judged).item()
    if leg.save and leg.save_at == leg.last:
        _save(leg.save, model, optimizer)
    return losses


def _trained(leg: Leg) -> Trained:
    text = read_text("help")
    torch.manual_seed(leg.seed)  # the same initial weights on all ranks and in all trainings of a seed
    model = CharacterModel(text.characters)
    (trial,) = trials([leg.system], ["adamw"])
    with hipress_session(_TIMEOUT), warnings.catch_warnings():
        warnings.simplefilter("ignore", hp.CodecWarning)  # AdamW with error feedback is what the benchmark measures
        optimizer = synchronizing(trial, model, leg.steps)
        figures = _load(leg, model, optimizer) if leg.load else {}
        losses = _train(leg, model, optimizer, text)
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).digest()
    if len(set(gather(digest))) > 1:
        raise ReplicasDiffer(f"after {leg}")
    return Trained(losses, sum(each.numel() for each in model.parameters()), **figures)


def main() -> None:
    """Does the leg of the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(_TIMEOUT, job.gloo_port)
    trained = _trained(job.leg)
    if dist.get_rank() == 0:
        Path(job.result).write_text(json.dumps(dataclasses.asdict(trained)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
