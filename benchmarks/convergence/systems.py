# SPDX-License-Identifier: Apache-2.0
"""How a rank trains with each method: its optimizer, and one step of it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.convergence.cells import Cell
from benchmarks.convergence.methods import TORCH_POWERSGD, codec_of, has_momentum
from benchmarks.convergence.tasks import Examples, loss
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.optimizers.own import OWN, made, schedule

#: Deadline of waits (seconds), generous because other work may delay a rank.
TIMEOUT = 300.0
_MOMENTUM = 0.9


@dataclass
class Trainer:
    """`step`: trains with a rank's examples; its second argument is whether to measure the error of the average, which
    the result then is. `sent_bytes`: so far. `windows`: of each window of hipress.torch.watch() so far the step at its
    end, the error and what is fresh."""

    step: Callable[[Examples, bool], float | None]
    sent_bytes: Callable[[], int | None]
    windows: list[tuple[int, float, float]] = field(default_factory=list)


@contextlib.contextmanager
def trainer(cell: Cell, model: nn.Module, steps: int) -> Iterator[Trainer]:
    """A trainer for so many steps, while the session of HiPress lasts. All ranks begin and end it together."""
    if cell.method in TORCH_POWERSGD:
        yield _of_torch(cell, model)
        return
    # Imported here, because torch's own methods train without HiPress.
    import hipress.torch as hp

    with hipress_session(TIMEOUT), warnings.catch_warnings():
        warnings.simplefilter("ignore", hp.CodecWarning)  # the suite is about these codecs
        yield _of_own(cell, model, steps) if cell.method in OWN else _of_codec(cell, model)


def _plain(cell: Cell, model: nn.Module) -> torch.optim.Optimizer:
    if cell.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=cell.learning_rate)
    momentum = _MOMENTUM if has_momentum(cell.method, cell.optimizer) else 0.0
    return torch.optim.SGD(model.parameters(), lr=cell.learning_rate, momentum=momentum)


def _backward(model: nn.Module, optimizer: torch.optim.Optimizer, examples: Examples) -> None:
    optimizer.zero_grad()
    loss(model, examples).backward()


def _sent() -> int:
    import hipress.torch as hp

    return int(hp.counters()["bytes_sent"])


def _of_codec(cell: Cell, model: nn.Module) -> Trainer:
    import hipress.torch as hp
    from hipress.watching import Figures

    # Everything is compressed, vectors, too: what a codec changes shows itself.
    optimizer = hp.DistributedOptimizer(
        _plain(cell, model),
        model.named_parameters(),
        codec=codec_of(cell.method, cell.optimizer),
        min_compress_bytes=0,
    )

    def step(examples: Examples, measured: bool) -> float | None:
        if not measured:
            _backward(model, optimizer, examples)
            optimizer.step()
            return None
        with optimizer.no_sync():
            _backward(model, optimizer, examples)
        exact = _mean([each.grad for each in model.parameters() if each.grad is not None])
        optimizer.synchronize()
        found = torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])
        with optimizer.skip_synchronize():
            optimizer.step()
        return float((found - exact).double().square().sum() / exact.double().square().sum())

    trains = Trainer(step, _sent)

    def note(figures: Figures) -> None:
        trains.windows.append((figures.step, figures.error, figures.fresh))

    hp.watch(optimizer, on_harm="ignore", writers=[note])
    return trains


def _mean(gradients: list[torch.Tensor]) -> torch.Tensor:
    """The exact average over all ranks, as one vector."""
    values = torch.cat([each.flatten() for each in gradients])
    dist.all_reduce(values)
    return values / dist.get_world_size()


def _of_own(cell: Cell, model: nn.Module, steps: int) -> Trainer:
    optimizer = made(cell.method, model, cell.learning_rate, steps)
    rates = schedule(cell.method, optimizer, steps)

    def step(examples: Examples, _: bool) -> None:
        _backward(model, optimizer, examples)
        optimizer.step()
        if rates is not None:
            rates.step()

    return Trainer(step, _sent)


def _of_torch(cell: Cell, model: nn.Module) -> Trainer:
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    optimizer = _plain(cell, model)
    wrapped = DistributedDataParallel(model)
    rank = TORCH_POWERSGD[cell.method]
    state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=2)
    wrapped.register_comm_hook(state, powerSGD_hook)

    def step(examples: Examples, _: bool) -> None:
        _backward(wrapped, optimizer, examples)
        optimizer.step()

    return Trainer(step, lambda: None)
