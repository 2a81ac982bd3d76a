# SPDX-License-Identifier: Apache-2.0
"""init() and shutdown() of a process whose synchronisations MXNet's engine begins and waits for."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from typing import Any

import mxnet as mx

from hipress import runtime
from hipress.errors import HipressError, Unsupported


@functools.wraps(runtime.init)
def init(**options: Any) -> None:
    """As hipress.init(). Raises Unsupported under MXNet's NaiveEngine, which cannot run asynchronous operations."""
    if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
        raise Unsupported(
            "MXNET_ENGINE_TYPE=NaiveEngine runs one operation at a time and cannot wait for other ranks meanwhile: "
            "unset it"
        )
    runtime.init(**options)
    # Before the engine's own end: what was pushed and has not begun must not find it gone.
    atexit.unregister(_finish_at_exit)
    atexit.register(_finish_at_exit)


def _finish() -> None:
    if runtime.is_initialized():
        mx.nd.waitall()


def _finish_at_exit() -> None:
    try:
        _finish()
    except HipressError as error:
        # Python would print the same with a traceback of this module, which tells nobody anything.
        print(f"hipress: what was pushed last failed: {type(error).__name__}: {error}", file=sys.stderr)


def shutdown() -> None:
    """Waits for what was pushed, raising its error; then says goodbye to the other ranks and stops the engine."""
    try:
        _finish()
    finally:
        runtime.shutdown()
