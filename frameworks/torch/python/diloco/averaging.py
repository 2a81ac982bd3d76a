# SPDX-License-Identifier: Apache-2.0
"""How pseudo-gradients are averaged over all ranks: each value, or SparseLoCo's messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch

from hipress.adapter.lists import restarting
from hipress.adapter.lists.moved_states import CommittedStates
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.launch.worlds.seat import seat
from hipress.torch.scaling.loss_scale import UNSCALED
from hipress.torch.synchronizer import GradientSynchronizer

if TYPE_CHECKING:
    from hipress.torch.diloco.ranks import Ranks

Values: TypeAlias = dict[str, torch.Tensor]


class Averaging(Protocol):
    """Averages the fragments of a model, one at a time."""

    #: Whether load_codec_states() takes what any codec has held back, also if this one holds nothing back.
    takes_codec_states: bool

    def enter(self, ranks: Ranks) -> None:
        """Agrees with all ranks, before the first exchange; in an elastic job in each world, and what this rank has not
        sent moves along."""

    def start(self, fragment: int, values: Values, number: int) -> Callable[[], Values]:
        """Begins with the average of `values`, which nothing else touches; returns what waits for it.

        `number`: of the exchange, the same on all ranks, from 0 on; random rounding depends on it.

        That raises PeerLost, Timeout, CorruptPayload, TransportError.
        """

    def residuals(self) -> Values | None:
        """What this rank has not sent yet, by name; None: this way of averaging keeps nothing here."""

    def load_residuals(self, residuals: Mapping[str, torch.Tensor]) -> None:
        """Goes on from checked ones, of residuals()."""

    def codec_states(self) -> dict[str, Any] | None:
        """What codecs hold back on this rank, in tensors and plain values; None: DiLoCo's state has nothing of it."""

    def load_codec_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from this rank's, from all old ranks', or, with none, from nothing. Raises InvalidArgument, and
        changes nothing then."""


class MovableAveraging(Averaging, Protocol):
    """An averaging over HiPress' engine. When the ranks change, its residuals move along."""

    def keep(self) -> None:
        """An exchange has ended: from here on the next one begins again if it fails."""

    def drop(self, names: Collection[str]) -> None:
        """The others have used the averages of these values in an exchange that has failed here, so nobody knows what
        is unsent."""

    def residual(self) -> float:
        """The squared norm of what this rank had not sent when keep() was called."""


class DenseAveraging:
    """Each value, as it is or with a codec of the engine."""

    takes_codec_states = False

    def __init__(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> None:
        self._shapes = {f"diloco.{name}": (each.shape, each.dtype) for name, each in parameters.items()}
        self.synchronizer = GradientSynchronizer(
            self._like(),
            SynchronizationOptions(codec=codec, topology=topology),
            scaler=UNSCALED,
            waits=restarting.waits_for_world(),
        )
        restarting.note(self)
        self._kept = CommittedStates(self.synchronizer)
        self._indices = {name: index for index, name in enumerate(parameters)}

    def _like(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, torch.empty(shape, dtype=dtype)) for name, (shape, dtype) in self._shapes.items()]

    def restart(self) -> None:
        """See Restartable."""
        self.synchronizer.restart_with(self._like())

    def enter(self, ranks: Ranks) -> None:
        """See Averaging."""
        if seat() is not None:
            self._kept.sync()

    def keep(self) -> None:
        """See MovableAveraging."""
        self._kept.save()

    def drop(self, names: Collection[str]) -> None:
        """See MovableAveraging."""
        self._kept.drop([f"diloco.{name}" for name in names])

    def residual(self) -> float:
        """See MovableAveraging."""
        return self._kept.residual()

    def start(self, fragment: int, values: Values, number: int) -> Callable[[], Values]:
        """See Averaging. The engine counts by itself."""
        operations = [self.synchronizer.submit(self._indices[name], each) for name, each in values.items()]

        def arrived() -> Values:
            while operations:
                self.synchronizer.wait(operations[0])
                operations.pop(0)
            return values

        return arrived

    def residuals(self) -> Values | None:
        """See Averaging: codec_states() has the states of the engine's codecs."""
        return None

    def load_residuals(self, residuals: Mapping[str, torch.Tensor]) -> None:
        """See Averaging."""

    def codec_states(self) -> dict[str, Any] | None:
        """See Averaging: hipress.torch.codec_states() has them."""
        return None

    def load_codec_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """See Averaging."""
