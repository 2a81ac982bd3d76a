# SPDX-License-Identifier: Apache-2.0
"""init() and shutdown() for MXNet, whose engine begins the synchronisations and waits for them."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import mxnet as mx

from hipress import runtime
from hipress.errors import HipressError, Unsupported

_P = ParamSpec("_P")


def _beside_mxnet(begin: Callable[_P, None]) -> Callable[_P, None]:
    @functools.wraps(begin)
    def init(*args: _P.args, **kwargs: _P.kwargs) -> None:
        if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
            raise Unsupported(
                "MXNET_ENGINE_TYPE=NaiveEngine runs one operation at a time and cannot wait for other ranks meanwhile: "
                "unset it"
            )
        begin(*args, **kwargs)
        # This must run before HiPress' engine ends: pushed operations that have not begun still need the engine.
        atexit.unregister(_finish_at_exit)
        atexit.register(_finish_at_exit)

    init.__doc__ = (
        f"{begin.__doc__}\n    Raises Unsupported under MXNet's NaiveEngine, which runs nothing asynchronously.\n    "
    )
    return init


init = _beside_mxnet(runtime.init)


def _finish() -> None:
    if runtime.is_initialized():
        mx.nd.waitall()


def _finish_at_exit() -> None:
    try:
        _finish()
    except HipressError as error:
        # Python would print the same text with a useless traceback of this module.
        print(f"hipress: the last pushed operations failed: {type(error).__name__}: {error}", file=sys.stderr)


def shutdown() -> None:
    """Waits for the pushed operations and raises their error; in either case it leaves the job and stops the engine."""
    try:
        _finish()
    finally:
        runtime.shutdown()
