# SPDX-License-Identifier: Apache-2.0
"""Ranks of this machine that take themselves for ranks of several hosts."""

from __future__ import annotations

from collections.abc import Callable

from hipress import runtime
from hipress._library import load_core


def start(hosts: list[int], init: Callable[[], None] = runtime.init) -> None:
    """init(), with the number of each rank's host; an empty list: as they are."""
    core = load_core()
    connect = core.connect_engine
    core.connect_engine = lambda control, address, options, *more: connect(  # type: ignore[method-assign]
        control, address, {**options, **({"hosts": hosts} if hosts else {})}, *more
    )
    try:
        init()
    finally:
        core.connect_engine = connect  # type: ignore[method-assign]
