# SPDX-License-Identifier: Apache-2.0
"""The ranks that DiLoCo synchronises, over HiPress' engine."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.agreement import agree
from hipress.errors import NotInitialized
from hipress.lifetime import Runtime
from hipress.torch.diloco.averaging import Averaging, DenseAveraging
from hipress.torch.state import broadcast_parameters
from hipress.unfinished import Step

#: Begins to collect all ranks' messages about a fragment, uint8 of shape [n]; returns what waits for them. That raises
#: PeerLost, Timeout, TransportError.
Gather: TypeAlias = Callable[[int, torch.Tensor], Callable[[], list[torch.Tensor]]]

_steps: weakref.WeakKeyDictionary[Runtime, list[Step]] = weakref.WeakKeyDictionary()


class Ranks(Protocol):
    """Who they are, and what carries their values. All of them call each method in one order."""

    rank: int
    world: int

    def agree(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """Raises Mismatch, on all ranks, with the first difference; see hipress.adapter.agreement.agree()."""

    def broadcast(self, values: Mapping[str, Any]) -> None:
        """Gives all ranks rank 0's tensors, in place; other values stay."""

    def gathers(self, sizes: Sequence[int]) -> Gather:
        """Makes what collects messages again and again: of each fragment, buffers of so many bytes on all ranks."""

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """What averages each value. Raises InvalidArgument, Unsupported."""

    def leaves_with(self, step: Step) -> None:
        """The other ranks' errors name its number of steps when this rank leaves."""

    def leave(self, why: str) -> None:
        """This rank takes part no more, and the others' exchanges end with an error that says why."""

    def all_left(self) -> None:
        """No rank takes part any more."""


class EngineRanks:
    """See Ranks. Raises NotInitialized."""

    def __init__(self) -> None:
        process = runtime.current()
        self.rank, self.world = process.place.rank, process.place.size

    def agree(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """See Ranks."""
        agree(describe)

    def broadcast(self, values: Mapping[str, Any]) -> None:
        """See Ranks."""
        broadcast_parameters(values, root_rank=0)

    def gathers(self, sizes: Sequence[int]) -> Gather:
        """See Ranks. The ranks agree on the buffers here, once, and ask rank 0 no more; the zeros at the end of a
        buffer do not travel."""
        process = runtime.current()
        engine, world = process.engine, self.world
        specs = [
            load_core().TensorSpec(
                f"{process.numbered('diloco.gathered')}.{fragment}",
                collective="allgather",
                dtype="uint8",
                count=size,
                shape=str([size]),
                received=[size] * world,
                trimmed=True,
            )
            for fragment, size in enumerate(sizes)
        ]
        handles = engine.agree(process.numbered("the list of DiLoCo's messages"), specs)

        def gather(fragment: int, message: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
            if runtime.current() is not process:
                raise NotInitialized("this DiLoCo was made before the last shutdown(): make a new one")
            gathered = np.empty((world, sizes[fragment]), np.uint8)
            operation = engine.submit(handles[fragment], message.numpy(), gathered)

            def arrived() -> list[torch.Tensor]:
                engine.wait(operation)
                return list(torch.from_numpy(gathered))

            return arrived

        return gather

    def leaves_with(self, step: Step) -> None:
        """See Ranks."""
        process = runtime.current()
        process.steps.add(step)
        # The program may forget its objects before it leaves.
        _steps.setdefault(process, []).append(step)

    def leave(self, why: str) -> None:
        """See Ranks. The engine ends the job with the error."""

    def all_left(self) -> None:
        """See Ranks. The engine knows which operations wait."""

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """See Ranks."""
        return DenseAveraging(parameters, codec, topology)
