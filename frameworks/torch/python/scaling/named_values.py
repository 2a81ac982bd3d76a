# SPDX-License-Identifier: Apache-2.0
"""The loss scale of values that a collective call hands over by name."""

from __future__ import annotations

from typing import Any

from hipress import runtime
from hipress.adapter.lists.checks import keeps_states
from hipress.torch.scaling.loss_scale import scaling_of

_LINE = "allreduce(gradient, name=..., codec=..., scaler=scaler)"


class NamedScales:
    """The scales that kept values have, by the name of the calls' values."""

    def __init__(self) -> None:
        self._scales: dict[str, float] = {}
        #: Whether a codec keeps anything, by its text: every call asks.
        self._keeping: dict[str, bool] = {"none": False}
        #: Whether a name without a scaler came again: a training loop runs.
        self._repeated = False

    @classmethod
    def of_this_engine(cls) -> NamedScales:
        """As long as the engine runs, it is the same object."""
        kept = runtime.current().kept
        if cls not in kept:
            kept[cls] = cls()
        scales: NamedScales = kept[cls]
        return scales

    def scale(self, scaler: Any, name: str | None, codec: str) -> float | None:
        """The loss scale of the values `name`; None if the codec keeps nothing for the next call.

        Raises InvalidArgument if the process scales losses by a scaler that was not given. It looks for one twice: in
        the first call, and when a name comes again.
        """
        if name is None or not self._keeps(codec):
            return None
        if scaler is None and self._repeated:
            return 1.0
        scaling = scaling_of(scaler, _LINE)
        if not scaling.is_given:
            again = name in self._scales
            if not self._scales or (again and not self._repeated):
                scaling.check()
            self._repeated |= again
        return scaling.now()

    def _keeps(self, codec: str) -> bool:
        if codec not in self._keeping:
            self._keeping[codec] = keeps_states(codec)
        return self._keeping[codec]

    def follow(self, scale: float, name: str, tensor: int) -> None:
        """Gives what the codec of the engine's tensor keeps the unit of values with this scale."""
        before = self._scales.get(name, scale)
        if scale != before:
            runtime.current().engine.multiply_states([tensor], scale / before)
        self._scales[name] = scale
