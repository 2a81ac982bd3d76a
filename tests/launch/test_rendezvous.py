# SPDX-License-Identifier: Apache-2.0
"""HiPress finds its rank and its rendezvous in every launcher's environment, and reports a wrong environment."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator

import pytest

from hipress.errors import InvalidArgument, TransportError, Unsupported
from hipress.launch.rendezvous import Rendezvous, resolve

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
HOROVODRUN = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "PMI_FD": "987654"}
SRUN = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "node[09-11]",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
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


def test_a_secret_of_the_users_own_goes_into_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    monkeypatch.setattr("hipress.launch.rendezvous.meeting.secrets.token_hex", lambda _: "what the store shows")
    tokens = {resolve(launcher | {"HIPRESS_JOB_TOKEN": secret}).token for secret in ("", "one", "two")}
    assert len(tokens) == 3
    assert "what the store shows" in tokens


def test_the_token_is_not_printed() -> None:
    assert "secret" not in repr(resolve(HIPRESS_RUN))


@pytest.mark.parametrize("name", HIPRESS_RUN)
def test_hipress_run_with_one_variable_missing_or_blank(name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name} is not set.*hipress run"):
        resolve({key: value for key, value in HIPRESS_RUN.items() if key != name})
    with pytest.raises(InvalidArgument, match=rf"{name}=' '.*expected "):
        resolve(HIPRESS_RUN | {name: " "})


@pytest.mark.parametrize("name", [*HIPRESS_RUN, "HIPRESS_RENDEZVOUS_FD", *TORCHRUN, *HOROVODRUN, *OPEN_MPI, *MPICH])
def test_one_variable_alone_is_never_a_world_of_one(name: str) -> None:
    with pytest.raises(InvalidArgument):
        resolve({name: "1"}, timeout=1)


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
        ("HOROVOD_RANK", "2"),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", "none"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
        ("PMI_RANK", "two"),
        ("PMI_FD", "-1"),
        ("SLURM_PROCID", "5"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_NODEID", "3"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_STEP_TASKS_PER_NODE", "2x2"),
        ("SLURM_STEP_NODELIST", "[1-3]"),
    ],
)
def test_malformed_values_are_named_with_what_is_expected(name: str, value: str) -> None:
    whole = next(all for all in (HIPRESS_RUN, TORCHRUN, HOROVODRUN, OPEN_MPI, MPICH, SRUN) if name in all)
    with pytest.raises(InvalidArgument) as caught:
        resolve(whole | {name: value})
    assert f"{name}={value!r}" in str(caught.value)
    assert "expected" in str(caught.value)


class TestStores:
    """The launcher's variables are right, but its store does not answer."""

    def test_horovodrun(self) -> None:
        with pytest.raises(TransportError, match=r"horovodrun's store at .*127\.0\.0\.1:1"):
            resolve(HOROVODRUN, timeout=1)

    def test_horovodruns_elastic_jobs(self) -> None:
        with pytest.raises(Unsupported, match="elastic"):
            resolve(HOROVODRUN | {"HOROVOD_ELASTIC": "1"})

    def test_open_mpi(self) -> None:
        with pytest.raises(TransportError, match=r"cannot ask PMIx.*HIPRESS_PMIX_LIBRARY"):
            resolve(OPEN_MPI | {"HIPRESS_PMIX_LIBRARY": "/nowhere/libpmix.so.2"}, timeout=1)

    def test_mpich(self) -> None:
        with pytest.raises(TransportError, match="cannot talk to mpirun over PMI_FD=987654"):
            resolve(MPICH, timeout=1)

    @pytest.mark.parametrize(
        "alone",
        [
            OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
            MPICH | {"PMI_SIZE": "1", "MPI_LOCALNRANKS": "1"},
        ],
    )
    def test_a_rank_alone_asks_nobody(self, alone: dict[str, str]) -> None:
        assert (resolve(alone).size, resolve(alone).port) == (1, 0)


class TestSrunWithoutAStore:
    """The ranks of an srun step without a store meet at an address that the step's variables determine."""

    def test_all_ranks_know_the_same_place(self) -> None:
        one, other = resolve(SRUN), resolve(SRUN | {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"})
        assert (one.rank, one.size, one.local_rank, one.local_size) == (4, 5, 0, 1)
        assert (other.local_rank, other.local_size) == (1, 2)
        assert one.host == other.host == "node09"
        assert one.port > 61000

    def test_steps_do_not_meet_each_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hipress.launch.rendezvous.meeting._meetings", itertools.repeat(0))
        tokens = [resolve(SRUN | {"SLURM_STEP_ID": step}).token for step in ("0", "0", "1")]
        assert tokens[0] == tokens[1] != tokens[2]
        assert resolve(SRUN | {"HIPRESS_JOB_TOKEN": "secret"}).token != tokens[0]

    @pytest.mark.parametrize(
        ("hosts", "first"),
        [("a", "a"), ("a,b", "a"), ("a1[2,4-5],b", "a12"), ("gpu[007]", "gpu007"), ("n[1-2]-ib", "n1-ib")],
    )
    def test_the_first_host(self, hosts: str, first: str) -> None:
        assert resolve(SRUN | {"SLURM_STEP_NODELIST": hosts}).host == first

    def test_reserved_ports(self) -> None:
        assert resolve(SRUN | {"SLURM_STEP_RESV_PORTS": "12000-12001"}).port == 12000

    def test_rank_0_elsewhere(self) -> None:
        with pytest.raises(InvalidArgument, match=r"rank 0 is not on node09.*--mpi=pmix"):
            resolve(SRUN | {"SLURM_PROCID": "0", "SLURM_NODEID": "1"})

    def test_a_taken_port(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            here = {"SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "localhost"}
            with pytest.raises(TransportError, match=f"Port {port} .*srun --resv-ports=1"):
                resolve(SRUN | here | {"SLURM_STEP_RESV_PORTS": port})

    def test_a_batch_script_is_no_rank(self) -> None:
        assert resolve({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}).size == 1


class TestInheritedSocket:
    """A rank uses HIPRESS_RENDEZVOUS_FD only if the descriptor is still the launcher's socket."""

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
        for _ in range(2):  # each init() gets a duplicate, and the socket stays for the next init()
            place = resolve(self.environ(fd, port))
            assert place.listen_fd not in (None, fd)
            with socket.socket(fileno=place.listen_fd), socket.create_connection(("127.0.0.1", port)):
                pass
        assert not os.get_inheritable(fd)
        child = os.fork()
        if child == 0:
            try:
                os.fstat(fd)
            except OSError:
                os._exit(7)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "a child keeps the port open"

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
