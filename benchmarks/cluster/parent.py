# SPDX-License-Identifier: Apache-2.0
"""Ends this process when its parent has ended."""

from __future__ import annotations

import ctypes
import os
import signal

from .errors import ClusterError

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Requests SIGTERM at the end of the parent. Raises ClusterError if the parent has ended or the system refuses."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM)) != 0:
        raise ClusterError(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        raise ClusterError("the process that wanted the cluster has ended")
