# SPDX-License-Identifier: Apache-2.0
"""Changes the codecs of a list of tensors while a warm-up lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.options.warmup import Warmup


class WarmingUp:
    """The codecs of one optimizer's gradients during the warm-up.

    Arguments:
        options: the options after the warm-up.
        fixed: codecs of single tensors that apply in the warm-up, too.

    Raises InvalidArgument if there are ratios and the codec has none.
    """

    def __init__(self, warmup: Warmup, options: SynchronizationOptions, fixed: Mapping[str, str] | None = None) -> None:
        self._stages = dict(warmup.stages(options.codec))
        self._codec_for = options.codec_for
        self._fixed = dict(fixed or {})
        self._steps = warmup.steps
        self._keeps_codec_for = bool(warmup.ratios)

    def before(self, options: SynchronizationOptions) -> SynchronizationOptions:
        """The options of the first step. A codec of the warm-up applies to all gradients; ratios apply to the gradients
        without an entry in codec_for.
        """
        return replace(options, codec=self._stages[0], codec_for=self._own_codecs(0))

    def starting_at(self, step: int) -> tuple[str, Mapping[str, str]] | None:
        """The codec and codec_for from step `step` on (0 is the first step) if they change there; otherwise None."""
        return (self._stages[step], self._own_codecs(step)) if step > 0 and step in self._stages else None

    def _own_codecs(self, step: int) -> Mapping[str, str]:
        return self._codec_for if self._keeps_codec_for or step >= self._steps else self._fixed
