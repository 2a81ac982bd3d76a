# SPDX-License-Identifier: Apache-2.0
"""The options of a list of tensors in each stage of a warm-up."""

from __future__ import annotations

from dataclasses import replace

from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.options.warmup import Warmup


class WarmingUp:
    """The stages of a warm-up. The last stage is the time after it.

    Arguments:
        options: the options after the warm-up.

    Raises InvalidArgument if there are ratios and the codec has none.
    """

    def __init__(self, warmup: Warmup, options: SynchronizationOptions) -> None:
        stages = warmup.stages(options.codec)
        # A codec of the warm-up applies to all gradients; ratios apply to the gradients without an entry in codec_for.
        own = options.codec_for if warmup.ratios else {}
        self._starts = [start for start, _ in stages]
        self._options = [replace(options, codec=codec, codec_for=own) for _, codec in stages[:-1]]
        self._options.append(options)

    def stage_at(self, step: int) -> int:
        """The number of the stage that step `step` (0 is the first step) belongs to."""
        return sum(start <= step for start in self._starts) - 1

    def options(self, stage: int) -> SynchronizationOptions:
        """The options of this stage."""
        return self._options[stage]
