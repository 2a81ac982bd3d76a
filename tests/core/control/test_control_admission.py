# SPDX-License-Identifier: Apache-2.0
"""Over TCP, rank 0 listens at the right address and admits the right ranks, and a rank that cannot join gets a clear
error."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest

from hipress import _core
from hipress.errors import Mismatch, Refused, Timeout, TransportError
from tests.core.control.control_ranks import TOKEN, World, assert_alive, heard, join, make_world, port_of
from tests.core.control.control_wire import CHALLENGE, VERSION, dial, hello, read_frame, read_to_end

pytestmark = pytest.mark.timeout(60)


def test_local_address_is_the_interface_to_rank_0(tcp_server: _core.ControlServer) -> None:
    plane, address = _core.connect_control(rank=0, world_size=2, port=tcp_server.port, token=TOKEN, timeout=5.0)
    assert address == "127.0.0.1"
    plane.close()


def test_ranks_may_come_before_rank_0(tcp_server: _core.ControlServer) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with make_world("local", 1) as helper:  # the test needs only its threads
        early = helper.pool.submit(join, port, 1, 2)
        time.sleep(0.4)
        assert not early.done()
        late = _core.ControlServer(port=port, world_size=2, token=TOKEN)
        early.result().close()
        late.close()


def test_without_rank_0_joining_times_out() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(Timeout, match=rf"rank 1 could not join rank 0 at 127\.0\.0\.1 port {port} within 0\.4 s"):
            join(port, 1, 2, timeout=0.4)
        assert time.monotonic() - start < 5


def test_silent_listener_times_out_and_a_talkative_one_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Timeout, match="did not answer"):
            join(port, 1, 2, timeout=0.4)
        listener.accept()[0].close()
        with make_world("local", 1) as helper:
            joining = helper.pool.submit(join, port, 1, 2)
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                with pytest.raises(TransportError, match="not rank 0 of a HiPress job"):
                    joining.result()


def test_missing_rank_that_never_connected_gets_other_advice(tcp_server: _core.ControlServer) -> None:
    with closing(join(tcp_server.port, 0, 2)) as plane:
        with pytest.raises(Timeout, match=r"1 of 2 ranks is here\. Check that it was started and can reach rank 0"):
            plane.allgather("start", b"", 0.2)
        with (
            closing(join(tcp_server.port, 1, 2)),
            pytest.raises(Timeout, match=r"It is connected \(host .*, pid \d+\)"),
        ):
            plane.allgather("other", b"", 0.2)


@pytest.mark.parametrize(
    ("rank", "size", "token", "error", "sentence"),
    [
        (1, 3, "guess", Refused, "the job token is wrong"),
        (1, 3, "", Refused, "the job token is wrong"),
        (1, 3, TOKEN + "x", Refused, "the job token is wrong"),
        (2, 3, TOKEN, Refused, "rank 2 is already taken by another process"),
        (3, 3, TOKEN, Refused, "rank 3 is out of range: ranks of this job are 0 to 2"),
        (-1, 3, TOKEN, Refused, "rank -1 is out of range"),
        (1, 4, TOKEN, Mismatch, "rank 1 was started for 4 ranks, rank 0 for 3"),
    ],
)
def test_who_does_not_belong_is_refused(
    tcp_world: World, rank: int, size: int, token: str, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        join(port_of(tcp_world), rank, size, token)
    assert_alive(tcp_world)
    assert not tcp_world.planes[0].notices()


def test_lost_rank_cannot_come_back(tcp_world: World) -> None:
    tcp_world.planes[2].close()
    heard(tcp_world.planes[0], "lost", 2)
    with pytest.raises(Refused, match="cannot come back"):
        join(port_of(tcp_world), 2, 3)


def test_other_protocol_version_is_refused(tcp_world: World) -> None:
    with dial(port_of(tcp_world)) as connection:
        connection.sendall(hello(1, 3, version=VERSION + 1))
        connection.shutdown(socket.SHUT_WR)
        said = read_to_end(connection).decode(errors="replace")
        assert f"rank 0 speaks version {VERSION} of the control protocol, this process version {VERSION + 1}" in said
    assert_alive(tcp_world)


def test_who_comes_late_hears_what_it_missed() -> None:
    with closing(_core.ControlServer(world_size=3, token=TOKEN)) as server:
        first, second = join(server.port, 0, 3), join(server.port, 1, 3)
        second.abort("Timeout", "too slow")
        heard(first, "aborted", 1)
        third = join(server.port, 2, 3)
        assert heard(third, "aborted", 1)[4] == "too slow"
        for plane in (first, second, third):
            plane.close()


def test_port_in_use_says_what_to_do(tcp_server: _core.ControlServer) -> None:
    with pytest.raises(
        TransportError, match=rf"port {tcp_server.port} on 127\.0\.0\.1 is already in use.*choose another"
    ):
        _core.ControlServer(port=tcp_server.port, world_size=2, token=TOKEN)


def test_foreign_address_and_unknown_host_are_explained() -> None:
    with pytest.raises(TransportError, match="not an address of this machine"):
        _core.ControlServer(host="192.0.2.1", world_size=2, token=TOKEN)
    with pytest.raises(TransportError, match=r"host 'does-not-exist\.invalid' is not known"):
        _core.ControlServer(host="does-not-exist.invalid", world_size=2, token=TOKEN)


def test_port_is_free_again_after_a_job() -> None:
    port = 0
    for _ in range(3):
        with closing(_core.ControlServer(port=port, world_size=1, token=TOKEN)) as server:
            port = server.port
            plane = join(port, 0, 1)
            plane.leave(1.0)
            plane.close()


def test_listening_socket_is_taken_over() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with dial(port) as early:  # a rank that is faster than rank 0 waits in the queue
        early.sendall(hello(1, 2))
        with closing(_core.ControlServer(world_size=2, token=TOKEN, listen_fd=listener.detach())) as server:
            assert server.port == port
            assert read_frame(early)[0] == CHALLENGE


def test_other_descriptors_are_not_taken_over() -> None:
    with socket.socket() as unbound:
        for fd in (unbound.fileno(), 987654):
            with closing(_core.ControlServer(world_size=1, token=TOKEN, listen_fd=fd)) as server:
                join(server.port, 0, 1).close()
        unbound.bind(("127.0.0.1", 0))  # the test's socket is still open
