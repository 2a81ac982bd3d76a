# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of `hipress run`, which gives every rank the address of rank 0, and rank 0 its listening socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from hipress.errors import TransportError
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.rendezvous.variables import Variables

#: Sockets that stay open in this process.
_inherited: set[int] = set()


def place_in_hipress_run(environ: Mapping[str, str]) -> Place:
    """Reads the place from the variables of `hipress run`."""
    return Variables("hipress run", environ).place(
        "HIPRESS_RANK", "HIPRESS_SIZE", "HIPRESS_LOCAL_RANK", "HIPRESS_LOCAL_SIZE"
    )


def from_hipress_run(environ: Mapping[str, str], _timeout: float) -> Rendezvous:
    """Reads the variables of `hipress run`. Rank 0 inherits the socket, so no other process can take the port."""
    variables = Variables("hipress run", environ)
    place = place_in_hipress_run(environ)
    expected = "host:port with a port from 1 to 65535"
    host, _, port_text = variables.text("HIPRESS_RENDEZVOUS", expected).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port_text.isascii() and port_text.isdigit()) or not 1 <= int(port_text) <= 65535:
        raise variables.bad("HIPRESS_RENDEZVOUS", expected)
    token = variables.text("HIPRESS_JOB_TOKEN", "the job's secret, the same text on every rank")
    listen_fd = None
    if place.rank == 0 and "HIPRESS_RENDEZVOUS_FD" in environ:
        fd = variables.integer("HIPRESS_RENDEZVOUS_FD", 0, None, "the number of an open file descriptor")
        listen_fd = fd if _listens_on(fd, int(port_text)) else None
        if listen_fd is None:
            _require_free(host, int(port_text))
        else:
            listen_fd = _kept(listen_fd, int(port_text))
    return Rendezvous(*place, host, int(port_text), listen_fd, token, source="hipress run")


def _kept(inherited: int, port: int) -> int:
    """A duplicate of the socket for one init(). The socket itself stays open for the next init(): while a wrapper of
    this process, such as a shell, holds the socket, too, no process can bind the port again."""
    if inherited not in _inherited:
        _inherited.add(inherited)
        os.register_at_fork(after_in_child=lambda: _drop(inherited, port))
    os.set_inheritable(inherited, False)
    return os.dup(inherited)


def _drop(inherited: int, port: int) -> None:
    """Closes the socket in a child of the training process, such as a data loader, which could outlive rank 0."""
    if _listens_on(inherited, port):
        os.close(inherited)


def _listens_on(fd: int, port: int) -> bool:
    """Whether `fd` is a TCP socket that listens on `port`.

    A wrapper between the launcher and this process (a shell script, subprocess with close_fds) may have closed the
    socket, and the number may now be of any other file. Then the caller ignores it and rank 0 binds the port itself.
    """
    try:
        # Take a duplicate, so that closing the Python object leaves `fd` open.
        with socket.socket(fileno=os.dup(fd)) as probe:
            return (
                probe.family in (socket.AF_INET, socket.AF_INET6)
                and probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
                and probe.getsockname()[1] == port
            )
    except (OSError, OverflowError):
        return False


def _require_free(host: str, port: int) -> None:
    """Raise `TransportError` if a wrapper holds the port and has not passed the socket on. The other ranks would
    connect to the wrapper, which never answers, and the error "port in use" alone would not give the reason."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise TransportError(
            f"rank 0 did not inherit the socket of HIPRESS_RENDEZVOUS={host}:{port} from hipress run, and cannot bind "
            f"it either: {error.strerror}. A program between them seems to hold it; let it exec its command, or pass "
            f"open files on (Python: subprocess with close_fds=False)."
        ) from error
