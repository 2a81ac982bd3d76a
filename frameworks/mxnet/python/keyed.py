# SPDX-License-Identifier: Apache-2.0
"""Arrays that come by key, one after the other, as an optimizer or a kvstore sees them: it has no list at the start."""

from __future__ import annotations

from collections.abc import Mapping

import mxnet as mx

from hipress.mxnet import operators
from hipress.mxnet.synchronizer import GradientSynchronizer
from hipress.synchronizer import SynchronizationOptions


class KeyedSynchronizer:
    """Synchronises arrays in place, by name. Ranks agree on those that come together when they come first."""

    def __init__(self, options: SynchronizationOptions) -> None:
        self._options = options
        self._lists: dict[tuple[str, ...], GradientSynchronizer] = {}

    def synchronize(self, arrays: Mapping[str, mx.nd.NDArray]) -> None:
        """Starts it and returns; nothing may use one of the arrays before all are there. Ranks call it alike.

        Raises InvalidArgument, Unsupported; for names that are new Mismatch and Timeout, too.
        """
        names = tuple(arrays)
        if names not in self._lists:
            described = [operators.describe(name, array.shape, array.dtype) for name, array in arrays.items()]
            self._lists[names] = GradientSynchronizer(described, self._options.for_some(names))
        self._lists[names].synchronize(dict(enumerate(arrays.values())))
