# SPDX-License-Identifier: Apache-2.0
"""What compression does to the averages of a training while it runs:

state = hipress.torch.ddp.compress(model, codec="onebit")   # or an optimizer of DistributedOptimizer()
hp.watch(state, optimizer="adamw")                          # on all ranks
...
hp.metrics()                                                # the newest figures
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hipress import runtime
from hipress.adapter.agreement import agree_among
from hipress.adapter.automatic_codec import kind_of
from hipress.adapter.objects import allgather_object
from hipress.errors import InvalidArgument
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.process_groups.agreement import agreeing
from hipress.torch.watching.rounds import WatchedBuckets, WatchedRounds
from hipress.torch.watching.schedule import Schedule
from hipress.torch.watching.watcher import Watcher
from hipress.torch.watching.ways import HookWay, OptimizerWay
from hipress.watching.harm import OnHarm
from hipress.watching.writers import Writer

if TYPE_CHECKING:
    from hipress.torch.ddp.state import HookState

#: The watchers of this process, in the order in which they were made.
_watchers: list[Watcher] = []


def watch(
    trained: DistributedTorchOptimizer | HookState,
    optimizer: Any = None,
    *,
    every: int = 1000,
    window: int = 20,
    places: int = 256,
    on_harm: str = "warn",
    writers: Sequence[Writer] = (),
) -> Watcher:
    """Watches what compression does to averages, from the next step on; all ranks call it, between two steps.

    In windows of some steps it compares averages with exact ones, at sampled places of each gradient that travels with
    a codec. The exact ones cost one small uncompressed average in each of these steps. Windows begin after `window`
    steps, then whenever the training has doubled its steps, and then every `every` steps.

    Arguments:
        trained: the optimizer that DistributedOptimizer() returned, or the state that ddp.compress() returned.
        optimizer: of the model, or its kind: "sgd", "momentum", "adam", "muon" or "lamb". None: that of
            DistributedOptimizer(); with a hook the strictest limits.
        every: steps from one window to the next.
        window: steps of a window.
        places: how many values of each gradient are sampled.
        on_harm: "warn": one CodecWarning, when the figures say that compression does harm. "safer": the gradient with
            the largest error also gets a safer codec, on all ranks, until the figures are good; its residual joins its
            next values. "ignore": neither.
        writers: they get the figures of each window, on this rank; hipress.watching has some.

    Returns the watcher: its `figures` are the last ones, None before the first window has ended.
    Raises InvalidArgument; Mismatch, on all ranks, if their arguments differ.
    """
    from hipress.torch.ddp.state import HookState  # which needs a torch with torch.distributed

    schedule = Schedule(every, window)
    if places < 1:
        raise InvalidArgument(f"places={places}: sample at least one value of each gradient")
    if isinstance(trained, HookState):
        hook_way, group = HookWay(trained), trained.group
        on = OnHarm(on_harm, None if optimizer is None else kind_of(optimizer), "state.set_codec()")
        watcher = Watcher(hook_way, schedule, places, on, writers)
        if group is not None:
            agreeing(group, hook_way.device())(_arguments(schedule, places, on))
        trained.watching = WatchedBuckets(watcher)
    elif isinstance(trained, DistributedTorchOptimizer):
        synchronization = trained._hipress
        synchronization.check_idle("watch")
        on = OnHarm(on_harm, kind_of(trained if optimizer is None else optimizer), "optimizer.set_codec()")
        watcher = Watcher(OptimizerWay(synchronization), schedule, places, on, writers)
        gather = partial(allgather_object, process_set=synchronization.process_set)
        agree_among(lambda: _arguments(schedule, places, on), gather, runtime.rank())
        synchronization.watching = WatchedRounds(watcher)
    else:
        raise InvalidArgument(
            f"watch() takes what DistributedOptimizer() or hipress.torch.ddp.compress() returned, not a "
            f"{type(trained).__name__}"
        )
    _watchers[:] = [*(each for each in _watchers if each.is_alive()), watcher]
    return watcher


def _arguments(schedule: Schedule, places: int, on_harm: OnHarm) -> Mapping[str, str]:
    """What must be the same on all ranks."""
    return {"arguments of watch()": f"{schedule}, places={places}, {on_harm}"}


def metrics() -> dict[str, float]:
    """The newest figures of all that watch() watches in this process, flat, by name; empty before the first window has
    ended. Those of the first watched optimizer or model begin with "hipress/", of the second with "hipress/2/"."""
    found: dict[str, float] = {}
    for number, watcher in enumerate(_watchers, 1):
        if watcher.figures is not None:
            prefix = "hipress/" if number == 1 else f"hipress/{number}/"
            found.update({f"{prefix}step": float(watcher.figures.step), **watcher.figures.as_dict(prefix)})
    return found
