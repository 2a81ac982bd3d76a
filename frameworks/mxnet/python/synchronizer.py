# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of arrays in every step; DistributedTrainer is built on it."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from hipress import runtime, unfinished
from hipress.adapter.synchronizer import SynchronizationOptions, TensorDescription, TensorList
from hipress.mxnet import operators

_numbers = itertools.count(1)


class GradientSynchronizer(TensorList):
    """A TensorList whose values are MXNet's arrays. MXNet's engine starts the synchronisation when they are ready.

    If an operation that computes an array fails, MXNet does not synchronise the array, and the other ranks wait. The
    call that waits for the array's values raises the error. If the script catches it and goes on, the next
    synchronize() raises Mismatch on all ranks.
    """

    def __init__(self, tensors: Iterable[TensorDescription], options: SynchronizationOptions | None = None) -> None:
        super().__init__(tensors, options)
        self._steps = 0
        self._number = next(_numbers)
        self._process.steps.add(self)
        weakref.finalize(self, _forget, self._process, self._number, len(self)).atexit = False

    def synchronize(self, arrays: dict[int, mx.nd.NDArray], absent: Sequence[int] = (), updates: int = -1) -> None:
        """Starts synchronising `arrays` in place and returns at once. The keys are the tensors' indices in the list.

        MXNet lets no operation use one of them before all have results. If one fails, all fail: a call that waits for
        one raises PeerLost, Timeout, Mismatch or CorruptPayload, and an update that needs one does not run. This rank
        is absent for the tensors in `absent`: their arrays receive the other ranks' result. `updates`: number of
        updates of the parameters on this rank.
        """
        what = self.unfinished()
        if what is not None:
            unfinished.end_job(
                self._process,
                f"{what}, caught it and went on, while the other ranks wait. Let such an exception end the rank",
            )
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
            number=self._number,
            updates=updates,
        )
        self._steps += 1
        for index in added:  # there are some only in the first step after set_codec()
            self.sent_with((self._steps, index), index, functools.partial(_is_finite, arrays[index]))
            arrays[index].wait_to_read()
            self.arrived((self._steps, index))

    def unfinished(self) -> str | None:
        """See hipress.adapter.unfinished.Step."""
        return _unfinished(self._process, self._number, len(self))

    def steps_taken(self) -> int:
        """See hipress.adapter.unfinished.Step."""
        return self._steps


def _unfinished(process: runtime.Runtime, number: int, gradients: int) -> str | None:
    skipped = operators.skipped(number)
    if skipped == 0 or process.place.size == 1:
        return None
    return (
        f"raised {operators.last_error() or 'something'}, so that MXNet did not compute {skipped} of the {gradients} "
        "gradients that were to be handed over"
    )


def _forget(process: runtime.Runtime, number: int, gradients: int) -> None:
    unfinished.tell(process, _unfinished(process, number, gradients))


def _is_finite(array: mx.nd.NDArray) -> bool:
    return bool(np.isfinite(array.asnumpy()).all())
