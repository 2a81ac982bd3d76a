# SPDX-License-Identifier: Apache-2.0
"""PMI, the line protocol by which MPICH's mpirun (Hydra) and Slurm carry values between the processes of a job.

Hydra kills the other ranks if a rank that has spoken to it ends without goodbye. After its goodbye, the failure of a
rank no longer ends the job. So a rank says goodbye at the end of the process, unless an exception ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import socket
import sys
import time

from hipress.errors import Timeout, TransportError
from hipress.launch.rendezvous.variables import Variables

#: Descriptor → the process that must say goodbye on it. Processes forked from it must not.
_to_take_leave: dict[int, int] = {}
#: Deadline of the answer to goodbye (seconds).
_PATIENCE = 5.0


class PmiStore:
    """The store of the launcher, which is at the other end of the socket PMI_FD."""

    def __init__(self, variables: Variables, rank: int) -> None:
        self._fd = variables.integer("PMI_FD", 0, None, "the number of an open file descriptor")
        self._rank = rank

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """See `Store`."""
        end = time.monotonic() + timeout
        try:
            with _connected(self._fd) as connection:
                _ask(connection, end, "init pmi_version=1 pmi_subversion=1")
                if self._fd not in _to_take_leave:
                    atexit.register(_take_leave, self._fd)
                _to_take_leave[self._fd] = os.getpid()
                space = _ask(connection, end, "get_my_kvsname")["kvsname"]
                if value is not None:
                    _ask(connection, end, f"put kvsname={space} key={key} value={value}")
                # After the barrier all ranks can read the values that ranks have put before it.
                _ask(connection, end, "barrier_in")
                return _ask(connection, end, f"get kvsname={space} key={key}")["value"]
        except TimeoutError:
            raise Timeout(
                f"rank {self._rank} waited {timeout:g} s for all ranks to ask where they meet; did each call init()?"
            ) from None
        except (OSError, KeyError) as error:
            raise TransportError(
                f"rank {self._rank} cannot talk to mpirun over PMI_FD={self._fd}: {error}. If a program between "
                f"mpirun and this one closes open files, let it pass them on (Python: subprocess with close_fds=False)."
            ) from error


def _connected(fd: int) -> socket.socket:
    # Take a duplicate, so that closing it leaves PMI_FD open for the next init() and for MPI.
    return socket.socket(fileno=os.dup(fd))


def _ask(connection: socket.socket, end: float, command: str) -> dict[str, str]:
    """Sends a command and returns the fields of the answer. Raises TimeoutError at monotonic second `end`, OSError."""
    connection.sendall(f"cmd={command}\n".encode())
    line = b""
    while not line.endswith(b"\n"):
        # poll() in place of the socket's timeout, which would make the descriptor non-blocking for MPI, too.
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimeoutError
        # An answer is one line, and no bytes follow before the next command.
        received = connection.recv(4096)
        if not received:
            raise OSError(f"it has closed the connection at: {command.partition(' ')[0]}")
        line += received
    fields = dict(re.findall(r"(\w+)=(\S*)", line.decode(errors="replace")))
    if fields.get("rc", "0") != "0":
        raise OSError(f"it answers {line.decode(errors='replace').strip()!r} to: {command.partition(' ')[0]}")
    return fields


def _take_leave(fd: int) -> None:
    failed = getattr(sys, "last_value", None) is not None
    if failed or _to_take_leave.get(fd) != os.getpid() or _mpi_runs():
        return
    with contextlib.suppress(OSError), _connected(fd) as connection:
        _ask(connection, time.monotonic() + _PATIENCE, "finalize")


def _mpi_runs() -> bool:
    """Whether this process uses MPI, which then says goodbye itself."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()
