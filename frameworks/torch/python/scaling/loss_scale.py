# SPDX-License-Identifier: Apache-2.0
"""The loss scale with which gradients come. What a codec keeps for later steps has the unit of the gradient: when the
scale changes, the kept values change with it.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import GradScaler

from hipress.errors import InvalidArgument
from hipress.torch.installed.private_names import scale_of, version_of


class LossScale:
    """The scale that a user's `scaler` has.

    Arguments:
        scaler: a torch.amp.GradScaler, an object with get_scale(), or a function that returns the scale; None:
            gradients are not scaled.
        line: a line of code that hands the scaler over, for the error of check().
    """

    def __init__(self, scaler: Any, line: str) -> None:
        self._scaler = scaler if isinstance(scaler, GradScaler) else None
        self._read: Callable[[], Any] | None = None
        self._line = line
        self._seen: tuple[int, int] | None = None  # the scaler's tensor and its version when `_value` was read
        self._value = 1.0
        if scaler is None:
            return
        read = getattr(scaler, "get_scale", None)
        self._read = read if callable(read) else scaler
        if not callable(self._read):
            raise InvalidArgument(
                f"scaler={scaler!r}: give a torch.amp.GradScaler, an object with get_scale(), or a function that "
                "returns the loss scale"
            )

    @property
    def is_given(self) -> bool:
        """Whether the user has handed a scaler over."""
        return self._read is not None

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor in which an enabled torch.amp.GradScaler has its scale, after the first scaled loss."""
        scaler = self._scaler
        return scale_of(scaler) if scaler is not None and scaler.is_enabled() else None

    @property
    def leaves_steps_out(self) -> bool:
        """Whether the optimizer leaves a step out whose gradients are not finite: an enabled torch.amp.GradScaler has
        scaled a loss. Of other scalers nobody knows it."""
        return self.tensor is not None

    def now(self) -> float:
        """The scale of the gradients of the current backward pass. It waits for a GPU that has the scale, at most once
        after each update of the scaler. Raises InvalidArgument for a scale that is no number above 0.
        """
        if self._read is None:
            return 1.0
        tensor = self.tensor
        if tensor is None:
            return _checked(self._read())
        seen = id(tensor), version_of(tensor)
        if seen != self._seen:
            self._value = _checked(tensor)
            self._seen = seen
        return self._value

    def check(self) -> None:
        """Raises InvalidArgument if this process scales losses with a torch.amp.GradScaler that was not handed over.

        It looks at all objects of the process, which takes some 0.1 s: call it once, before the first average with a
        codec that keeps states.
        """
        if self.is_given:
            return
        scaler = scaler_in_use()
        if scaler is None:
            return
        raise InvalidArgument(
            f"this process scales losses with a {type(scaler).__name__}, which was not handed over, and the codec "
            "keeps values for later steps: when the scale changes, these values would have the wrong size. Write "
            f"`{self._line}`; if these values are not scaled, give scaler=lambda: 1.0"
        )


def scaling_of(scaler: Any, line: str) -> LossScale:
    """The LossScale of a user's scaler, or the given one."""
    return scaler if isinstance(scaler, LossScale) else LossScale(scaler, line)


#: Of values that no loss scale reaches, such as differences of parameters.
UNSCALED = LossScale(lambda: 1.0, "")


def scaler_in_use() -> GradScaler | None:
    """An enabled torch.amp.GradScaler of this process that has scaled a loss."""
    gc.collect()  # scalers that nothing uses any more
    # type() in place of isinstance(): proxies answer isinstance() with code of their own.
    scalers = (each for each in gc.get_objects() if issubclass(type(each), GradScaler))
    return next((each for each in scalers if each.is_enabled() and scale_of(each) is not None), None)


def _checked(scale: Any) -> float:
    value = float(scale)
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgument(f"the scaler's loss scale is {value}: expected a number above 0")
    return value
