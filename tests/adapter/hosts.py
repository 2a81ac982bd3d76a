# SPDX-License-Identifier: Apache-2.0
"""Starts ranks of this machine that believe they are on several hosts."""

from __future__ import annotations

from collections.abc import Callable

from hipress import runtime
from hipress._library import load_core


def start(hosts: list[int], init: Callable[[], None] = runtime.init) -> None:
    """Calls `init` with the host number of each rank in `hosts`; an empty list leaves the detected hosts unchanged."""
    core = load_core()
    connect = core.connect_engine
    core.connect_engine = lambda control, address, options, *more: connect(  # type: ignore[method-assign]
        control, address, {**options, **({"hosts": hosts} if hosts else {})}, *more
    )
    try:
        init()
    finally:
        core.connect_engine = connect  # type: ignore[method-assign]
