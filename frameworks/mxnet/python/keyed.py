# SPDX-License-Identifier: Apache-2.0
"""Synchronises arrays that an optimizer or a kvstore gets one after the other by key, without a list in advance."""

from __future__ import annotations

from collections.abc import Mapping

import mxnet as mx

from hipress import runtime
from hipress.adapter.compression import Compressing, compressed
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.mxnet import operators
from hipress.mxnet.synchronizer import GradientSynchronizer


class KeyedSynchronizer:
    """Synchronises arrays in place, by name. Ranks agree on the arrays of a call when these names first occur together.

    With `in_order` the n-th call of every rank must belong together: if a rank leaves out a call, Mismatch is raised.
    With a compressor, the arrays travel as the compressor returns them.
    """

    def __init__(
        self, options: SynchronizationOptions, compressor: Compressing | None = None, *, in_order: bool
    ) -> None:
        self.process_set = options.process_set
        self._options = options
        self._compressor = compressor
        self._in_order = in_order
        self._lists: dict[tuple[str, ...], GradientSynchronizer] = {}
        self._scale = 1.0
        self._by_steps = False
        self._calls = 0

    def synchronize(self, arrays: Mapping[str, mx.nd.NDArray], factor: float | None = None) -> None:
        """Starts the synchronisation and returns. MXNet lets no operation use one of the arrays before all have
        results. All ranks make the same calls. `factor`: see GradientSynchronizer.synchronize().

        Raises InvalidArgument, Unsupported; for new names also Mismatch and Timeout.
        """
        given = list(arrays.values())
        sent, decompressed = compressed(self._compressor, given)
        self._synchronize(dict(zip(arrays, sent, strict=True)), factor)
        for array, result in zip(given, decompressed(sent), strict=True):
            if result is not array:
                array[:] = result

    def set_loss_scale(self, scale: float) -> None:
        """Says that the next arrays are gradients times `scale`; see TensorList.set_loss_scale(). From the first one on
        all arrays settle together: a step begins with the first name that the step before had, too."""
        if scale == self._scale:
            return
        self._scale = scale
        if self._by_steps and self._lists:
            mx.nd.waitall()  # only then MXNet has begun all operations of the last step
            runtime.current().engine.end_step(self._handles()[0])
        elif not self._by_steps:
            self._by_steps = True
            self._settle_together()

    def _handles(self) -> list[int]:
        return [each.handle(index) for each in self._lists.values() for index in range(len(each))]

    def _settle_together(self) -> None:
        if self._lists:
            runtime.current().engine.settle_by_steps(self._handles())

    def _synchronize(self, arrays: Mapping[str, mx.nd.NDArray], factor: float | None) -> None:
        names = tuple(arrays)
        if names not in self._lists:
            described = [operators.describe(name, array.shape, array.dtype) for name, array in arrays.items()]
            self._lists[names] = GradientSynchronizer(described, self._options.for_some(names))
            if self._by_steps:
                self._settle_together()
        if self._scale != self._lists[names].loss_scale:
            for array in arrays.values():
                array.wait_to_read()  # only then MXNet has ended its last operation
            self._lists[names].set_loss_scale(self._scale)
        updates = self._calls if self._in_order else -1
        self._lists[names].synchronize(
            dict(enumerate(arrays.values())), updates=updates, factor=factor, ends_step=not self._by_steps
        )
        self._calls += 1
