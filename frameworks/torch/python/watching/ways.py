# SPDX-License-Identifier: Apache-2.0
"""The ways in whose averages can be watched: DistributedOptimizer, and the hook of DistributedDataParallel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from hipress import runtime
from hipress.adapter.operations import synchronize
from hipress.errors import InvalidArgument
from hipress.torch.collectives import allreduce_async
from hipress.torch.operators import core_count
from hipress.torch.process_groups import group_calls

if TYPE_CHECKING:
    from hipress.torch.backward import BackwardSynchronization
    from hipress.torch.ddp.state import HookState


class OptimizerWay:
    """See watcher.Way. Not the optimizer's own reference: it has the watcher."""

    def __init__(self, synchronization: BackwardSynchronization) -> None:
        self._reference = weakref.ref(synchronization)

    def _synchronization(self) -> BackwardSynchronization:
        found = self._reference()
        assert found is not None  # it calls the watcher
        return found

    def is_alive(self) -> bool:
        """See Way."""
        return self._reference() is not None

    def tensors(self) -> Mapping[str, tuple[int, str]]:
        """See Way."""
        synchronization, device = self._synchronization(), self.device()
        synchronizer = synchronization.synchronizer
        exact = set(synchronizer.exact_tensors)
        return {
            name: (synchronizer.tensors[index].count, synchronizer.codec_with_options(index))
            for index, (name, parameter) in enumerate(synchronization.named_parameters())
            if name not in exact and parameter.device == device
        }

    def device(self) -> torch.device:
        """See Way."""
        return self._synchronization().named_parameters()[0][1].device

    def start_average(self, values: torch.Tensor) -> Callable[[], torch.Tensor]:
        """See Way."""
        synchronizer = self._synchronization().synchronizer
        options = synchronizer.options
        handle = allreduce_async(
            values,
            name=f"sampled places of {synchronizer.name(0)}",
            op=options.op,
            prescale_factor=options.prescale_factor,
            postscale_factor=options.postscale_factor,
            process_set=options.process_set,
        )
        return lambda: synchronize(handle)

    def sent_bytes(self) -> int:
        """See Way."""
        return runtime.counters()["bytes_sent"]

    def safer(self, name: str, codec: str) -> None:
        """See Way."""
        synchronization = self._synchronization()
        options = synchronization.synchronizer.options
        if options.plan is not None:
            raise InvalidArgument("a plan chooses the codecs: call set_plan() with another one")
        synchronization.set_codec(options.codec, {**options.codec_for, name: codec})


class HookWay:
    """See watcher.Way."""

    def __init__(self, state: HookState) -> None:
        self._reference = weakref.ref(state)

    def _state(self) -> HookState:
        found = self._reference()
        assert found is not None  # it calls the watcher
        return found

    def is_alive(self) -> bool:
        """See Way."""
        return self._reference() is not None

    def tensors(self) -> Mapping[str, tuple[int, str]]:
        """See Way."""
        state, device = self._state(), self.device()
        exact = set(state.exact_tensors)
        return {
            name: (core_count(each), state.codec_of(name))
            for name, each in state.parameters().items()
            if name not in exact and each.device == device
        }

    def device(self) -> torch.device:
        """See Way."""
        return next(iter(self._state().parameters().values())).device

    def start_average(self, values: torch.Tensor) -> Callable[[], torch.Tensor]:
        """See Way."""
        group = self._state().group
        if group is None:
            return lambda: values
        work, ranks = group_calls.all_reduce(group, values), group.size()

        def wait() -> torch.Tensor:
            work.wait()
            return values.div_(ranks)

        return wait

    def sent_bytes(self) -> int:
        """See Way."""
        return self._state().sent_bytes

    def safer(self, name: str, codec: str) -> None:
        """See Way."""
        self._state().travel_safer(name, codec)
