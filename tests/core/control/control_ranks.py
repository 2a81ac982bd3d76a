# SPDX-License-Identifier: Apache-2.0
"""Ranks as threads on either control plane, and functions that wait for their notices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from hipress import _core

TOKEN = "secret of this job"
PATIENCE = 20.0  # seconds for any event; a test of a fast event has its own bound


class World:
    """The ranks of one job and, with TCP, rank 0's server."""

    def __init__(self, planes: Sequence[_core.ControlPlane], server: _core.ControlServer | None) -> None:
        self.planes = list(planes)
        self.server = server
        self.pool = ThreadPoolExecutor(max_workers=2 * len(self.planes))

    def start(self, rank: int, method: str, *arguments: Any) -> Future[Any]:
        return self.pool.submit(getattr(self.planes[rank], method), *arguments)

    def gather(self, key: str, ranks: Sequence[int], timeout: float = PATIENCE) -> dict[int, Future[list[bytes]]]:
        return {rank: self.start(rank, "allgather", key, b"from %d" % rank, timeout) for rank in ranks}

    def close(self) -> None:
        for plane in self.planes:
            plane.close()
        if self.server is not None:
            self.server.close()
        self.pool.shutdown()


@contextmanager
def make_world(kind: str, size: int) -> Iterator[World]:
    if kind == "local":
        world = World(_core.make_local_control(size), None)
    else:
        server = _core.ControlServer(world_size=size, token=TOKEN)
        world = World([join(server.port, rank, size) for rank in range(size)], server)
    try:
        yield world
    finally:
        world.close()


def join(port: int, rank: int, size: int, token: str = TOKEN, timeout: float = PATIENCE) -> _core.ControlPlane:
    plane, _ = _core.connect_control(rank=rank, world_size=size, port=port, token=token, timeout=timeout)
    return plane


def wait_until(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "the event did not come in time"
        time.sleep(0.005)


def heard(plane: _core.ControlPlane, kind: str, rank: int, patience: float = PATIENCE) -> tuple[Any, ...]:
    """Waits for a notice of this kind about this rank and returns it."""

    def matching() -> list[tuple[Any, ...]]:
        return [notice for notice in plane.notices() if notice[:2] == (kind, rank)]

    wait_until(lambda: bool(matching()), patience)
    return matching()[0]


def port_of(world: World) -> int:
    assert world.server is not None
    return world.server.port


def assert_alive(world: World) -> None:
    calls = world.gather("alive", range(len(world.planes)))
    assert all(len(call.result()) == len(world.planes) for call in calls.values())
