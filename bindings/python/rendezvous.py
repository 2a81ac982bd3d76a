# SPDX-License-Identifier: Apache-2.0
"""Who this process is and where its ranks meet, from the environment that a launcher left.

Each launcher is one `Source` in `SOURCES`; they are asked in order and the first whose variables are set answers. To
support another launcher, add an entry: nothing else of the package knows launchers.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hipress._environment import Variables
from hipress.errors import TransportError


@dataclass(frozen=True)
class Rendezvous:
    """One rank's place in its job, and the meeting point of all ranks.

    `host` and `port` are where rank 0 serves (port 0: any free one; only in a world of one). `listen_fd` is a
    listening socket for rank 0 to take over, owned by whoever receives this object; None: bind `host:port`. `token`
    is the job's secret and is kept out of repr(). `source` names the launcher, for messages.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    port: int
    listen_fd: int | None
    token: str
    source: str

    def __repr__(self) -> str:
        return (
            f"Rendezvous(rank={self.rank}, size={self.size}, local_rank={self.local_rank}, "
            f"local_size={self.local_size}, host={self.host!r}, port={self.port}, listen_fd={self.listen_fd}, "
            f"token=<hidden>, source={self.source!r})"
        )


@dataclass(frozen=True)
class Source:
    """A launcher: its name, the variables that show that it started this process, and how to read them."""

    name: str
    variables: tuple[str, ...]
    read: Callable[[Mapping[str, str], float], Rendezvous]


def resolve(environ: Mapping[str, str] = os.environ, timeout: float = 60.0) -> Rendezvous:
    """This process' place, as its launcher says; a world of one if no launcher's variable is set.

    `timeout` (seconds) bounds what has to be asked of others (torchrun's store). A launcher whose variables are set in
    part or wrongly raises `InvalidArgument` that names the variable: training alone by mistake, on every rank, looks
    like success and is the worst outcome. Raises `Timeout` or `TransportError` if the store does not answer.
    """
    for source in SOURCES:
        if any(name in environ for name in source.variables):
            return source.read(environ, timeout)
    return _alone()


def _from_hipress_run(environ: Mapping[str, str], _timeout: float) -> Rendezvous:
    """What `hipress run` sets; rank 0 inherits the listening socket, so no other process can take the port."""
    variables = Variables("hipress run", environ)
    rank, size, local_rank, local_size = variables.place(
        "HIPRESS_RANK", "HIPRESS_SIZE", "HIPRESS_LOCAL_RANK", "HIPRESS_LOCAL_SIZE"
    )
    expected = "host:port with a port from 1 to 65535"
    host, _, port_text = variables.text("HIPRESS_RENDEZVOUS", expected).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port_text.isascii() and port_text.isdigit()) or not 1 <= int(port_text) <= 65535:
        raise variables.bad("HIPRESS_RENDEZVOUS", expected)
    token = variables.text("HIPRESS_JOB_TOKEN", "the job's secret, the same text on every rank")
    listen_fd = None
    if rank == 0 and "HIPRESS_RENDEZVOUS_FD" in environ:
        fd = variables.integer("HIPRESS_RENDEZVOUS_FD", 0, None, "the number of an open file descriptor")
        listen_fd = fd if _listens_on(fd, int(port_text)) else None
        if listen_fd is None:
            _require_free(host, int(port_text))
        else:
            # A child of the training process (a data loader, say) must not keep the port alive after rank 0 has died.
            os.set_inheritable(listen_fd, False)
    return Rendezvous(rank, size, local_rank, local_size, host, int(port_text), listen_fd, token, source="hipress run")


def _listens_on(fd: int, port: int) -> bool:
    """Whether `fd` is a TCP socket that listens on `port`.

    A wrapper between the launcher and this process (a shell script, subprocess with close_fds) may have closed it, and
    the number may by now be any other file. Then it is left alone and rank 0 binds the port itself.
    """
    try:
        # A duplicate, so that closing the Python object leaves `fd` open.
        with socket.socket(fileno=os.dup(fd)) as probe:
            return (
                probe.family in (socket.AF_INET, socket.AF_INET6)
                and probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
                and probe.getsockname()[1] == port
            )
    except (OSError, OverflowError):
        return False


def _require_free(host: str, port: int) -> None:
    """Raise `TransportError` if the port is still held by a wrapper that did not hand the socket on: the other ranks
    would connect to the wrapper, which never answers, and "port in use" alone would not tell why."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise TransportError(
            f"rank 0 did not inherit the socket of HIPRESS_RENDEZVOUS={host}:{port} from hipress run, and cannot bind "
            f"it either: {error.strerror}. A program between them seems to hold it; let it exec its command, or pass "
            f"open files on (Python: subprocess with close_fds=False)."
        ) from error


def _from_torchrun(environ: Mapping[str, str], timeout: float) -> Rendezvous:
    """What torchrun sets (or the same variables by hand). Its own store has MASTER_PORT, so the ranks meet elsewhere:
    rank 0 binds a port and tells the others through that store."""
    variables = Variables("torchrun", environ)
    rank, size, local_rank, local_size = variables.place("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    master = variables.text("MASTER_ADDR", "the host name or address of rank 0's host")
    port = variables.integer("MASTER_PORT", 1, 65535, "a port from 1 to 65535")
    # Here and not at the top: it imports torch, which takes seconds and need not be installed for other launchers.
    from hipress._torch_store import StoreAddress, meet

    run = environ.get("TORCHELASTIC_RUN_ID", "none")
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    met = meet(
        StoreAddress(master, port, agent_owns_it=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"),
        prefix=f"hipress/{run}/{restart}/",
        rank=rank,
        one_host=local_size == size,
        timeout=timeout,
    )
    return Rendezvous(
        rank, size, local_rank, local_size, met.host, met.port, met.listen_fd, met.token, source="torchrun"
    )


def _alone() -> Rendezvous:
    """A world of one: a script started without a launcher."""
    return Rendezvous(0, 1, 0, 1, "127.0.0.1", 0, None, secrets.token_hex(16), source="no launcher")


#: In this order because the more specific comes first: RANK and WORLD_SIZE are also set by hand and by other tools,
#: HIPRESS_* only by `hipress run`.
SOURCES: tuple[Source, ...] = (
    Source(
        "hipress run",
        (
            "HIPRESS_RANK",
            "HIPRESS_SIZE",
            "HIPRESS_LOCAL_RANK",
            "HIPRESS_LOCAL_SIZE",
            "HIPRESS_RENDEZVOUS",
            "HIPRESS_RENDEZVOUS_FD",
            "HIPRESS_JOB_TOKEN",
        ),
        _from_hipress_run,
    ),
    Source(
        "torchrun",
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        _from_torchrun,
    ),
)
