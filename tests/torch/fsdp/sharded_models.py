# SPDX-License-Identifier: Apache-2.0
"""Small sharded models, their training and the weights with which they compute, for tests of FSDP2's all-gather."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from hipress import _core
from tests.torch.ddp import training

#: Bytes of a message's header, and of what messages are a multiple of.
HEADER, ALIGNED = 32, 16


def sharded(mesh: Any, wrap: Any = lambda block: block, **options: Any) -> Any:
    """A sharded model whose first matrix cannot be divided into three equal shards."""
    torch.manual_seed(0)
    blocks = [wrap(nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))) for _ in range(2)]
    net = nn.Sequential(*blocks, nn.LayerNorm(40), nn.Linear(40, 1))
    for block in net[:2]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def one_pass(net: nn.Module, rank: int, step: int) -> torch.Tensor:
    inputs, wanted = training.batch(rank, step)
    loss = (net(inputs) - wanted).square().mean()
    loss.backward()
    return loss.detach()


def train(net: nn.Module, rank: int, steps: int = 5, lr: float = 0.01) -> float:
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    loss = torch.zeros(())
    for step in range(steps):
        optimizer.zero_grad()
        loss = one_pass(net, rank, step)
        optimizer.step()
    return loss.item()


def all_values(net: nn.Module) -> np.ndarray[Any, Any]:
    return np.concatenate([each.full_tensor().detach().float().numpy().ravel() for each in net.parameters()])


def watch(net: nn.Module) -> list[dict[str, torch.Tensor]]:
    """The decoded weights of each gather from now on: of blocks that compute, in their order."""
    seen: list[dict[str, torch.Tensor]] = []

    def look(module: Any, *_: Any) -> None:
        seen.append({name: each.detach().clone() for name, each in module.named_parameters()})

    for block in net[:2]:  # type: ignore[index]
        linear = block[0]
        linear.register_forward_pre_hook(look)
        linear.register_full_backward_pre_hook(look)
    return seen


def message_bytes(codec: str, elements: int) -> int:
    room = _core.create_codec(codec).max_encoded_bytes(elements)
    return -(-(HEADER + room) // ALIGNED) * ALIGNED
