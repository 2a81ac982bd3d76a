# SPDX-License-Identifier: Apache-2.0
"""Elastic training: the ranks of a job come and go, and its training goes on from the last commit.

    import hipress.torch as hp

    hp.init()
    state = hp.elastic.TorchState(model, optimizer, epoch=0, batch=0)

    @hp.elastic.run
    def train(state):
        while state.epoch < epochs:
            ...
            state.commit()

    train(state)

Start it with `hipress run --elastic`. Names and meaning are Horovod's (horovod.common.elastic).
"""

from __future__ import annotations

from hipress.elastic.interrupts import HostsUpdatedInterrupt, HostUpdateResult
from hipress.elastic.lost_ranks import Loss, losses
from hipress.elastic.running import run, run_fn
from hipress.elastic.state import ObjectState, State

__all__ = [
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "Loss",
    "ObjectState",
    "State",
    "losses",
    "run",
    "run_fn",
]
