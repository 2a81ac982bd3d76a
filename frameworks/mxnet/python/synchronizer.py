# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of arrays in every step; DistributedTrainer is built on it."""

from __future__ import annotations

import functools
import itertools
import struct
import weakref
import zlib
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from hipress import runtime, unfinished
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.mxnet import operators

_numbers = itertools.count(1)


class GradientSynchronizer(TensorList):
    """A TensorList whose values are MXNet's arrays. MXNet's engine starts the synchronisation when they are ready.

    If an operation that computes an array fails, MXNet does not synchronise the array, and the other ranks wait. The
    call that waits for the array's values raises the error. If the script catches it and goes on, the next
    synchronize() raises Mismatch on all ranks.
    """

    _frees_handles = False  # MXNet may still begin operations that it was given

    def __init__(self, tensors: Iterable[TensorDescription], options: SynchronizationOptions | None = None) -> None:
        super().__init__(tensors, options)
        self._steps = 0
        self._number = next(_numbers)
        self._factors = 0
        self._process.steps.add(self)
        weakref.finalize(self, _forget, self._process, self._number, self._handles).atexit = False

    def synchronize(
        self,
        arrays: dict[int, mx.nd.NDArray],
        absent: Sequence[int] = (),
        updates: int = -1,
        factor: float | None = None,
        *,
        ends_step: bool = True,
    ) -> None:
        """Starts synchronising `arrays` in place and returns at once. The keys are the tensors' indices in the list.

        MXNet lets no operation use one of them before all have results. If one fails, all fail: a call that waits for
        one raises PeerLost, Timeout, Mismatch or CorruptPayload, and an update that needs one does not run. This rank
        is absent for the tensors in `absent`: their arrays receive the other ranks' result.

        Arguments:
            updates: number of updates of the parameters on this rank.
            factor: the number by which the update multiplies the results; None: unknown. If ranks have different
                factors, or different numbers of updates, all fail with Mismatch.
            ends_step: False: arrays of other lists belong to the same step.
        """
        if what := _unfinished(self._process, self._number, len(self), arrays.values()):
            unfinished.end_step(self._process, f"{what}, while the other ranks waited for them")
        for index, array in arrays.items():
            operators.check_array(array, self.name(index))
        added = [index for index in arrays if self.held_back(index) is not None and index not in absent]
        for index in added:
            arrays[index] += mx.nd.array(self.held_back(index)).reshape(arrays[index].shape)
        if factor is not None:
            # The digest is of all steps, so that the next one finds a difference that this one's few bits hide.
            self._factors = zlib.crc32(struct.pack("<d", factor), self._factors)
        operators.synchronize(
            [None if index in absent else array for index, array in arrays.items()],
            list(arrays.values()),
            [self.handle(index) for index in arrays],
            together=True,
            number=self._number,
            step=self._steps,
            updates=updates if factor is None else max(updates, 0),
            factors=self._factors,
            ends_step=ends_step,
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


def _unfinished(
    process: runtime.Runtime, number: int, gradients: int, arrays: Iterable[mx.nd.NDArray] = ()
) -> str | None:
    skipped, step = operators.skipped(number)
    if skipped == 0 or process.place.size == 1:
        return None
    return (
        f"raised {operators.reason_of(arrays)}, so that MXNet did not compute {skipped} of the {gradients} gradients "
        f"of step {step}"
    )


def _forget(process: runtime.Runtime, number: int, handles: list[int]) -> None:
    try:
        unfinished.tell(process, _unfinished(process, number, len(handles)))
    finally:
        operators.forget_list(number, handles)


def _is_finite(array: mx.nd.NDArray) -> bool:
    return bool(np.isfinite(array.asnumpy()).all())
