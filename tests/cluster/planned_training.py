# SPDX-License-Identifier: Apache-2.0
"""A rank that trains with automatic plans, for test_plans_follow_links.py. Arguments: the output file, and a file whose
existence ends the training. The gradients are random and known, so the rank can compute which values have not arrived.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch

import hipress.torch as hp
from hipress.secopa.online.automatic import AutomaticOptions

SIZES = (1_500_000, 400_000, 5_000, 300, 40)
MOST_STEPS = 400
LAST_STEPS = 3


def values_of(parameter: torch.Tensor, rank: int, step: int) -> torch.Tensor:
    return torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1000 * step + rank))


def main() -> None:
    diary, end = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    hp.init()
    named = {f"p{index}": torch.nn.Parameter(torch.zeros(size)) for index, size in enumerate(SIZES)}
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(named.values(), lr=0.1),
        named.items(),
        plan=AutomaticOptions(codecs=("onebit",), profile_s=4.0, links_s=1.0),
    )
    lacking = {name: torch.zeros_like(parameter) for name, parameter in named.items()}

    def step(number: int) -> None:
        optimizer.zero_grad()
        total = torch.zeros(())
        for name, parameter in named.items():
            for rank in range(hp.size()):
                values = values_of(parameter, rank, number)
                lacking[name] += values / hp.size()
                if rank == hp.rank():
                    total = total + (parameter * values).sum()
        total.backward()
        optimizer.step()
        for name, parameter in named.items():
            assert parameter.grad is not None
            lacking[name] -= parameter.grad

    def say(**facts: object) -> None:
        parameters = b"".join(parameter.detach().numpy().tobytes() for parameter in named.values())
        most = max(float(each.abs().max()) for each in lacking.values())
        facts |= {"parameters": hashlib.sha256(parameters).hexdigest(), "lacking": most}
        with diary.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    number = 0
    # Rank 0 looks for the file and broadcasts the answer, so all ranks stop in the same step.
    while number < MOST_STEPS and not hp.broadcast_object(end.exists(), root_rank=0):
        planning = optimizer._hipress.planning
        step(number)
        plan = planning.plan
        compressed = 0 if plan is None else sum(choice.compressed for choice in plan.choices())
        say(step=number, plan="" if plan is None else plan.fingerprint(), compressed=compressed)
        number += 1
    optimizer.set_plan(None)  # without a plan and a codec, the residuals arrive
    for last in range(number, number + LAST_STEPS):
        step(last)
    say(step=number + LAST_STEPS, plan="", compressed=0)
    hp.shutdown()


if __name__ == "__main__":
    main()
