# SPDX-License-Identifier: Apache-2.0
"""Who this process is and where its ranks meet: every launcher's environment, right and wrong."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from hipress.errors import InvalidArgument, TransportError
from hipress.rendezvous import Rendezvous, resolve

HIPRESS_RUN = {
    "HIPRESS_RANK": "1",
    "HIPRESS_SIZE": "4",
    "HIPRESS_LOCAL_RANK": "1",
    "HIPRESS_LOCAL_SIZE": "2",
    "HIPRESS_RENDEZVOUS": "10.0.0.7:4321",
    "HIPRESS_JOB_TOKEN": "secret",
}
TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


def test_no_launcher_is_a_world_of_one() -> None:
    alone = resolve({"PATH": "/bin"})
    assert (alone.rank, alone.size, alone.local_rank, alone.local_size) == (0, 1, 0, 1)
    assert (alone.host, alone.port, alone.listen_fd) == ("127.0.0.1", 0, None)
    assert len(alone.token) >= 32
    assert alone.token != resolve({}).token


def test_hipress_run() -> None:
    assert resolve(HIPRESS_RUN) == Rendezvous(1, 4, 1, 2, "10.0.0.7", 4321, None, "secret", "hipress run")


def test_hipress_run_comes_before_torchrun() -> None:
    assert resolve(TORCHRUN | HIPRESS_RUN).source == "hipress run"


def test_an_ipv6_address() -> None:
    assert resolve(HIPRESS_RUN | {"HIPRESS_RENDEZVOUS": "[::1]:5"}).host == "::1"


def test_the_token_is_not_printed() -> None:
    assert "secret" not in repr(resolve(HIPRESS_RUN))


@pytest.mark.parametrize("name", HIPRESS_RUN)
def test_hipress_run_with_one_variable_missing_or_blank(name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name} is not set.*hipress run"):
        resolve({key: value for key, value in HIPRESS_RUN.items() if key != name})
    with pytest.raises(InvalidArgument, match=rf"{name}=' '.*expected "):
        resolve(HIPRESS_RUN | {name: " "})


@pytest.mark.parametrize("name", [*HIPRESS_RUN, "HIPRESS_RENDEZVOUS_FD", *TORCHRUN])
def test_one_variable_alone_is_never_a_world_of_one(name: str) -> None:
    with pytest.raises(InvalidArgument):
        resolve({name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HIPRESS_RANK", "4"),
        ("HIPRESS_RANK", "-1"),
        ("HIPRESS_RANK", "one"),
        ("HIPRESS_RANK", "1.0"),
        ("HIPRESS_RANK", "1_0"),
        ("HIPRESS_RANK", "٣"),
        ("HIPRESS_SIZE", "0"),
        ("HIPRESS_SIZE", "-4"),
        ("HIPRESS_LOCAL_RANK", "2"),
        ("HIPRESS_LOCAL_SIZE", "5"),
        ("HIPRESS_LOCAL_SIZE", "0"),
        ("HIPRESS_RENDEZVOUS", "10.0.0.7"),
        ("HIPRESS_RENDEZVOUS", ":4321"),
        ("HIPRESS_RENDEZVOUS", "10.0.0.7:0"),
        ("HIPRESS_RENDEZVOUS", "10.0.0.7:65536"),
        ("HIPRESS_RENDEZVOUS", "10.0.0.7:http"),
        ("RANK", "2"),
        ("WORLD_SIZE", "two"),
        ("LOCAL_RANK", "3"),
        ("LOCAL_WORLD_SIZE", "9"),
        ("MASTER_PORT", "0"),
        ("MASTER_PORT", "70000"),
        ("MASTER_ADDR", ""),
    ],
)
def test_malformed_values_are_named_with_what_is_expected(name: str, value: str) -> None:
    whole = HIPRESS_RUN if name in HIPRESS_RUN else TORCHRUN
    with pytest.raises(InvalidArgument) as caught:
        resolve(whole | {name: value})
    assert f"{name}={value!r}" in str(caught.value)
    assert "expected" in str(caught.value)


class TestInheritedSocket:
    """HIPRESS_RENDEZVOUS_FD is used only if it still is what the launcher passed."""

    @staticmethod
    def environ(fd: object, port: int, rank: int = 0) -> dict[str, str]:
        changes = {"HIPRESS_RANK": str(rank), "HIPRESS_LOCAL_RANK": str(rank)}
        return HIPRESS_RUN | changes | {"HIPRESS_RENDEZVOUS": f"127.0.0.1:{port}", "HIPRESS_RENDEZVOUS_FD": str(fd)}

    @pytest.fixture
    def listener(self) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            os.set_inheritable(listener.fileno(), True)
            yield listener

    def test_rank_0_takes_it_over(self, listener: socket.socket) -> None:
        fd, port = listener.fileno(), listener.getsockname()[1]
        assert resolve(self.environ(fd, port)).listen_fd == fd
        assert not os.get_inheritable(fd)
        socket.create_connection(("127.0.0.1", port)).close()

    def test_other_ranks_leave_it_alone(self, listener: socket.socket) -> None:
        assert resolve(self.environ(listener.fileno(), listener.getsockname()[1], rank=1)).listen_fd is None

    def test_another_port(self, listener: socket.socket) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            free = other.getsockname()[1]
        assert resolve(self.environ(listener.fileno(), free)).listen_fd is None

    def test_not_listening(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            fd, port = bound.fileno(), bound.getsockname()[1]
            with pytest.raises(TransportError, match="rank 0 did not inherit the socket"):
                resolve(self.environ(fd, port))

    def test_a_file_and_a_closed_descriptor(self, listener: socket.socket) -> None:
        port = listener.getsockname()[1]
        listener.close()
        with open(os.devnull) as file:
            assert resolve(self.environ(file.fileno(), port)).listen_fd is None
        assert resolve(self.environ(987_654, port)).listen_fd is None
        assert resolve(self.environ(10**30, port)).listen_fd is None

    def test_not_a_number(self) -> None:
        with pytest.raises(InvalidArgument, match="HIPRESS_RENDEZVOUS_FD='x'"):
            resolve(self.environ("x", 1))
