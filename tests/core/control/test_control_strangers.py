# SPDX-License-Identifier: Apache-2.0
"""A process that does not speak the protocol cannot affect a job."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import PeerLost, Timeout, TransportError
from tests.core.control.control_ranks import TOKEN, World, assert_alive, heard, join, make_world, port_of
from tests.core.control.control_wire import (
    CHALLENGE,
    MAGIC,
    NONCE,
    PROOF,
    REFUSED,
    VERSION,
    WELCOME,
    accept_rank,
    dial,
    frame,
    hello,
    proof,
    prove,
    read_frame,
    read_to_end,
    text,
)

pytestmark = pytest.mark.timeout(60)


MALFORMED = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(100),
    "huge length": b"\xff\xff\xff\xff\x01" + b"x" * 5000,
    "over the stranger's limit": frame(1, b"x" * 4097),
    "wrong magic": hello(1, 3, magic=1),
    "request before hello": frame(4, struct.pack("<QB", 1, 7) + text(b"bye")),
    "host longer than the frame": frame(1, struct.pack("<IHiiI", MAGIC, VERSION, 1, 3, 1000) + b"x"),
    "short nonce": hello(1, 3, nonce=b"short"),
    "proof before hello": frame(PROOF, text(bytes(32))),
    "empty frame": frame(1, b""),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_strangers_are_dropped_without_harm(tcp_world: World, name: str) -> None:
    with dial(port_of(tcp_world)) as connection:
        connection.sendall(MALFORMED[name])
        assert read_to_end(connection) == b""
    assert_alive(tcp_world)
    assert not tcp_world.planes[0].notices()


@pytest.mark.parametrize(
    "sent",
    [
        frame(200, b""),
        frame(2, b"short"),
        b"\xff\xff\xff\xff\x02",
        frame(2, struct.pack("<Q", 1) + text(b"key") + struct.pack("<I", 0xFFFFFFFF)),
        frame(3, struct.pack("<Q", 1) + text(b"x") + text(b"spec") + b"\x00trailing"),
        frame(4, struct.pack("<QB", 1, 99) + text(b"unknown error")),
    ],
)
def test_rank_that_sends_malformed_messages_is_lost(tcp_server: _core.ControlServer, sent: bytes) -> None:
    with closing(join(tcp_server.port, 0, 2)) as plane, dial(tcp_server.port) as connection:
        assert prove(connection, hello(1, 2))[0] == WELCOME
        connection.sendall(sent)
        read_to_end(connection)
        message = heard(plane, "lost", 1)[4]
        assert "rank 1 (host host, pid 4242) was lost: it sent a malformed message" in message


def test_many_silent_strangers_do_not_keep_ranks_out(tcp_server: _core.ControlServer) -> None:
    strangers = [dial(tcp_server.port) for _ in range(300)]
    planes = [join(tcp_server.port, rank, 2) for rank in range(2)]
    for plane in planes:
        plane.close()
    for stranger in strangers:
        stranger.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), prefix=st.sampled_from([b"", hello(1, 2), hello(1, 2)[:20]]))
def test_random_bytes_do_no_harm(data: bytes, prefix: bytes) -> None:
    with closing(_core.ControlServer(world_size=2, token=TOKEN)) as server:
        with dial(server.port) as connection:
            connection.sendall(prefix + data)
            connection.shutdown(socket.SHUT_WR)
            read_to_end(connection)
        with closing(join(server.port, 0, 2)) as plane:
            assert plane.declare("x", "float32[1]", timeout=5.0) >= 1


def test_rank_0_that_talks_nonsense_is_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, make_world("local", 1) as helper:
        joining = helper.pool.submit(join, listener.getsockname()[1], 1, 2)
        connection, _ = listener.accept()
        with connection:
            accept_rank(connection, 2)
            connection.sendall(frame(68, b"\xff" * 30))
            with closing(joining.result()) as plane:
                assert "malformed" in heard(plane, "lost", 0)[4]
                with pytest.raises(PeerLost, match="rank 0 was lost"):
                    plane.allgather("k", b"", 5.0)


def test_silent_rank_0_is_noticed_by_the_callers_themselves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, make_world("local", 1) as helper:
        joining = helper.pool.submit(join, listener.getsockname()[1], 1, 2)
        connection, _ = listener.accept()
        with connection, closing(connection.makefile("rb")):
            accept_rank(connection, 2)
            with closing(joining.result()) as plane:
                start = time.monotonic()
                with pytest.raises(Timeout, match=r"rank 0 does not answer: rank 1 waited 2\.2 s for 'k'"):
                    plane.allgather("k", b"", 0.2)
                assert 2.0 < time.monotonic() - start < 8.0
                plane.abort("Timeout", "x" * (8 << 20))  # abort() does not wait, although the other end does not read


def test_token_never_travels() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, make_world("local", 1) as helper:
        joining = helper.pool.submit(join, listener.getsockname()[1], 1, 2, TOKEN, 1.0)
        connection, _ = listener.accept()
        with connection:
            _, said = read_frame(connection)
            connection.sendall(frame(CHALLENGE, text(NONCE)))
            _, proved = read_frame(connection)
            assert TOKEN.encode() not in said + proved
            connection.sendall(frame(WELCOME, struct.pack("<i", 2) + text(proved[4:])))
            # The stranger repeats the rank's own proof, which does not prove that the stranger knows the token.
            with pytest.raises(TransportError, match="not rank 0 of a HiPress job"):
                joining.result()


def test_recorded_proof_is_refused_on_another_connection(tcp_server: _core.ControlServer) -> None:
    said = hello(1, 2)
    with dial(tcp_server.port) as first, dial(tcp_server.port) as second:
        challenges = []
        for connection in (first, second):
            connection.sendall(said)
            challenges.append(read_frame(connection)[1][4:])
        recorded = frame(PROOF, text(proof("rank", said, challenges[0])))
        second.sendall(recorded)
        assert read_frame(second)[0] == REFUSED
        first.sendall(recorded)
        assert read_frame(first)[0] == WELCOME


def test_proof_holds_for_one_rank_only(tcp_server: _core.ControlServer) -> None:
    with dial(tcp_server.port) as connection:
        connection.sendall(hello(1, 2))
        challenge = read_frame(connection)[1][4:]
        connection.sendall(frame(PROOF, text(proof("rank", hello(0, 2), challenge))))
        kind, answer = read_frame(connection)
        assert kind == REFUSED
        assert b"the job token is wrong" in answer


STRANGERS = """
import socket, sys, time
sys.stdin.readline()
kept = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(100)]
print("connected", flush=True)
time.sleep(40)
"""
RANKS = f"""
import resource, subprocess, sys
from hipress import _core
from tests.core.control.control_ranks import join
server = _core.ControlServer(world_size=2, token={TOKEN!r})
pipe = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}}
strangers = subprocess.Popen([sys.executable, "-c", {STRANGERS!r}, str(server.port)], **pipe)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))
print(file=strangers.stdin, flush=True)
assert strangers.stdout.readline() == "connected\\n"
planes = [join(server.port, rank, 2) for rank in range(2)]
print("joined")
strangers.kill()
for plane in planes:
    plane.close()
"""


def test_strangers_leave_descriptors_where_few_are_allowed() -> None:
    result = subprocess.run([sys.executable, "-c", RANKS], capture_output=True, text=True, timeout=50)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["joined"]
