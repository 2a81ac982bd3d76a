# SPDX-License-Identifier: Apache-2.0
"""Codecs in Python on the stand-in for a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from unittest import mock

from hipress.torch.python_codecs import memory
from tests.core.device.fake_gpus import fake_driver


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL(str(fake_driver()))


class _StandIn(memory.HostMemory):
    """torch has no streams of the stand-in, so the host waits where a GPU's stream would."""

    is_host = False

    def __init__(self, _index: int, stream: int) -> None:
        self._stream = stream

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """See Memory."""
        _driver().cuStreamSynchronize(ctypes.c_void_p(self._stream))
        yield


@contextlib.contextmanager
def computing_on_a_stand_in() -> Iterator[None]:
    """Codecs in Python find the memory of the stand-in where that of a GPU would be."""
    with mock.patch.object(memory, "gpu_memory", _StandIn):
        yield
