# SPDX-License-Identifier: Apache-2.0
"""How pseudo-gradients are averaged over all ranks: each value, or SparseLoCo's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import torch

from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.torch.scaling.loss_scale import UNSCALED
from hipress.torch.synchronizer import GradientSynchronizer

Values: TypeAlias = dict[str, torch.Tensor]


class Averaging(Protocol):
    """Averages the fragments of a model, one at a time."""

    #: Whether load_codec_states() takes what any codec has held back, also if this one holds nothing back.
    takes_codec_states: bool

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


class DenseAveraging:
    """Each value, as it is or with a codec of the engine."""

    takes_codec_states = False

    def __init__(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> None:
        self.synchronizer = GradientSynchronizer(
            [(f"diloco.{name}", torch.empty(each.shape, dtype=each.dtype)) for name, each in parameters.items()],
            SynchronizationOptions(codec=codec, topology=topology),
            scaler=UNSCALED,
        )
        self._indices = {name: index for index, name in enumerate(parameters)}

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
