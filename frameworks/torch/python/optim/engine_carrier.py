# SPDX-License-Identifier: Apache-2.0
"""The carrier of an optimizer's tensors over HiPress' engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hipress import runtime
from hipress.adapter import codec_states
from hipress.adapter.agreement import agree
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.torch.collectives import allgather_async
from hipress.torch.optim.travel import Travel
from hipress.torch.scaling.loss_scale import UNSCALED
from hipress.torch.synchronizer import GradientSynchronizer


class EngineCarrier:
    """See Carrier. Each tensor is an operation of the engine; all operations of a step run at the same time."""

    def __init__(self, kind: str, shapes: Mapping[str, torch.Size], travel: Travel) -> None:
        process = runtime.current()
        self.world, self.rank = process.place.size, process.place.rank
        self._kind = process.numbered(f"optim.{kind}")
        self._travel = travel
        self._compressed = False
        self._indices = {name: index for index, name in enumerate(shapes)}
        self.synchronizer = GradientSynchronizer(
            [(f"{kind}.{name}", torch.empty(shape)) for name, shape in shapes.items()],
            SynchronizationOptions(min_compress_bytes=travel.min_compress_bytes),
            scaler=UNSCALED,
        )

    def agree(self, described: Mapping[str, str]) -> None:
        """See Carrier."""
        agree(lambda: described)

    def average(self, values: Mapping[str, torch.Tensor], *, compressed: bool) -> None:
        """See Carrier."""
        self._choose(compressed=compressed)
        operations = [self.synchronizer.submit(self._indices[name], each) for name, each in values.items()]
        for operation in operations:
            self.synchronizer.wait(operation)

    def _choose(self, *, compressed: bool) -> None:
        if compressed == self._compressed:
            return
        if compressed:
            self.synchronizer.set_codec(self._travel.codec, self._travel.codec_for)
        else:
            self.synchronizer.set_codec("none")
        self._compressed = compressed

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """See Carrier."""
        gathered = allgather_async(values.reshape(1, -1), name=f"{self._kind}.gathered").wait()
        assert isinstance(gathered, torch.Tensor)
        return gathered

    @property
    def sent_bytes(self) -> int:
        """See Carrier."""
        return int(runtime.counters()["bytes_sent"])

    def state_dict(self) -> dict[str, Any] | None:
        """See Carrier."""
        states = codec_states.own_states(self.synchronizer)
        # Values become tensors: torch.load() reads NumPy arrays only from trusted files.
        return {
            "compressed": self._compressed,
            "states": {key: torch.from_numpy(values) for key, values in states.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """See Carrier. No other rank is asked."""
        if state is None:
            codec_states.forget_states(self.synchronizer)
            return
        # The states need the codec that made them: another codec would send the residuals once and lose the states.
        self._choose(compressed=state["compressed"])
        codec_states.load_own_states(self.synchronizer, state["states"], np.asarray)
