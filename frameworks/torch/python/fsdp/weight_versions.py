# SPDX-License-Identifier: Apache-2.0
"""Whether the weights of a unit have changed since its last all-gather."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from hipress.torch.fsdp.units import Unit


class WeightVersions:
    """Counts the steps of all optimizers that have a unit's parameters.

    torch's own counter of a sharded parameter misses optimizers that update lists of parameters ("foreach", "fused").
    It has the other changes, such as those by load_state_dict().
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units
        self._steps = [0] * len(units)
        own = weakref.ref(self)  # the hook must not keep the model

        def after_step(optimizer: Optimizer, _arguments: tuple[Any, ...], _options: Mapping[str, Any]) -> None:
            versions = own()
            if versions is not None:
                versions._count(optimizer)

        handle = register_optimizer_step_post_hook(after_step)
        #: Ends the counting.
        self.close = weakref.finalize(self, handle.remove)

    def of(self, unit: Unit) -> Hashable:
        """A value that is another one when the weights have changed."""
        return (self._steps[self._units.index(unit)], unit.counted_changes)

    def _count(self, optimizer: Optimizer) -> None:
        stepped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for number, unit in enumerate(self._units):
            self._steps[number] += not stepped.isdisjoint(map(id, unit.parameters))
