# SPDX-License-Identifier: Apache-2.0
"""A rank whose host answers is not lost, whatever its process does. tests/cluster has hosts that do not answer."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.runtime import RuntimeOptions
from tests.core.control.control_ranks import PATIENCE, TOKEN, heard, make_world
from tests.core.control.control_wire import accept_rank, dial, frame, hello, prove, text

pytestmark = pytest.mark.timeout(60)

LIMIT = 0.4


#: A rank sends a beat every quarter of the limit.
BEATS = {"heartbeat": LIMIT / 4, "heartbeat_limit": LIMIT}


@pytest.fixture
def tcp_server() -> Iterator[_core.ControlServer]:
    with closing(_core.ControlServer(world_size=2, token=TOKEN, **BEATS)) as made:
        yield made


def join(port: int, rank: int, size: int) -> _core.ControlPlane:
    plane, _ = _core.connect_control(rank=rank, world_size=size, port=port, token=TOKEN, timeout=PATIENCE, **BEATS)
    return plane


def beats(connection: socket.socket) -> int:
    """The number of beats that have come besides the welcome."""
    connection.settimeout(0.05)
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except TimeoutError:
        pass
    return received.count(frame(128, b""))


def test_rank_0_beats_and_a_rank_that_never_does_is_not_lost(tcp_server: _core.ControlServer) -> None:
    with closing(join(tcp_server.port, 0, 2)) as plane, dial(tcp_server.port) as silent:
        prove(silent, hello(1, 2))
        time.sleep(5 * LIMIT)
        assert not plane.notices()
        assert 10 <= beats(silent) <= 21  # every quarter of the limit, and fewer on a busy machine
        silent.close()
        heard(plane, "lost", 1)


def test_a_rank_beats_and_hears_rank_0s_silence_as_no_loss() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, make_world("local", 1) as helper:
        joining = helper.pool.submit(join, listener.getsockname()[1], 1, 2)
        connection, _ = listener.accept()
        with connection:
            accept_rank(connection, 2)
            with closing(joining.result()) as plane:
                time.sleep(5 * LIMIT)
                assert not plane.notices()
                assert beats(connection) >= 10
                connection.sendall(frame(128, b""))  # rank 0 receives this frame and ignores it
                time.sleep(0.1)
                assert not plane.notices()


def test_a_stopped_rank_with_a_full_buffer_is_not_lost(tcp_server: _core.ControlServer) -> None:
    value = bytes(12 << 20)
    with closing(join(tcp_server.port, 0, 2)) as plane, dial(tcp_server.port) as stopped:
        prove(stopped, hello(1, 2))
        # The rank asks for 24 MB, and then reads none of them.
        stopped.sendall(frame(2, struct.pack("<Q", 1) + text(b"k") + text(value) + struct.pack("<QBI", 20_000, 0, 0)))
        assert plane.allgather("k", value, 20.0) == [value, value]
        time.sleep(8 * LIMIT)
        assert not plane.notices()


@pytest.mark.parametrize(
    ("interval", "limit", "wrong"),
    [
        (None, "soon", "HIPRESS_HEARTBEAT_LIMIT='soon'"),
        (None, "0", "HIPRESS_HEARTBEAT_LIMIT='0' is too small"),
        (None, "nan", "HIPRESS_HEARTBEAT_LIMIT='nan' is too small"),
        (None, "inf", "heartbeat_limit=inf: both are seconds from 0.01 to 86400"),
        ("0.001", "7", "heartbeat=0.001 and heartbeat_limit=7: both are seconds"),
        ("1s", "7", "HIPRESS_HEARTBEAT='1s'"),
        ("5", "7", "heartbeat=5, the interval, must be at most half of heartbeat_limit=7"),
    ],
)
def test_what_is_no_interval_or_limit(
    monkeypatch: pytest.MonkeyPatch, interval: str | None, limit: str, wrong: str
) -> None:
    monkeypatch.setenv("HIPRESS_HEARTBEAT_LIMIT", limit)
    if interval is not None:
        monkeypatch.setenv("HIPRESS_HEARTBEAT", interval)
    with pytest.raises(InvalidArgument, match=wrong):
        RuntimeOptions.from_environment()


def test_a_short_limit_makes_beats_more_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPRESS_HEARTBEAT", raising=False)
    monkeypatch.delenv("HIPRESS_HEARTBEAT_LIMIT", raising=False)
    assert RuntimeOptions.from_environment().heartbeat == 1.0
    assert RuntimeOptions.from_environment(heartbeat_limit=2.0).heartbeat == 0.5
    assert RuntimeOptions.from_environment(heartbeat_limit=2.0, heartbeat=1.0).heartbeat == 1.0
