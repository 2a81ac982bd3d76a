# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of arrays again and again: what DistributedTrainer is built on."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from hipress.mxnet import operators
from hipress.synchronizer import SynchronizationOptions, TensorDescription, TensorList


class GradientSynchronizer(TensorList):
    """A TensorList whose values are MXNet's arrays; MXNet's engine knows when they are ready."""

    def __init__(self, tensors: Iterable[TensorDescription], options: SynchronizationOptions | None = None) -> None:
        super().__init__(tensors, options)
        self._steps = 0

    def synchronize(self, arrays: dict[int, mx.nd.NDArray], absent: Sequence[int] = ()) -> None:
        """Starts synchronising values in place, of the tensors at the keys; returns at once.

        Nothing may use one of them before all are there. If one fails none is usable: whatever waits for one raises
        PeerLost, Timeout, Mismatch or CorruptPayload, and an update that was to use one does not happen. Of the tensors
        in `absent` this rank has no values: the arrays receive what the other ranks have.
        """
        for index, array in arrays.items():
            operators.check_array(array, self.name(index))
        added = [index for index in arrays if self.held_back(index) is not None and index not in absent]
        for index in added:
            arrays[index] += mx.nd.array(self.held_back(index)).reshape(arrays[index].shape)
        operators.synchronize(
            [None if index in absent else array for index, array in arrays.items()],
            list(arrays.values()),
            [self.handle(index) for index in arrays],
            together=True,
        )
        self._steps += 1
        for index in added:  # in the first step after set_codec() only
            self.sent_with((self._steps, index), index, functools.partial(_is_finite, arrays[index]))
            arrays[index].wait_to_read()
            self.arrived((self._steps, index))


def _is_finite(array: mx.nd.NDArray) -> bool:
    return bool(np.isfinite(array.asnumpy()).all())
