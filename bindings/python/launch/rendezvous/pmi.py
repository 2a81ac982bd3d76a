# SPDX-License-Identifier: Apache-2.0
"""PMI, the line protocol through which MPICH's mpirun (Hydra) and Slurm carry values between the processes of a job.

Hydra kills the other ranks when one ends that has spoken to it and not said goodbye; one that has, and then fails, no
longer ends the job. So goodbye is said at the process' end, unless an exception ends it.
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

#: The descriptors on which goodbye is to be said, and by which process: not by one forked from it.
_to_take_leave: dict[int, int] = {}
#: For the answer to goodbye (seconds).
_PATIENCE = 5.0


class PmiStore:
    """The launcher at the other end of the socket whose number is PMI_FD."""

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
                # After the barrier all ranks can read the values that were put before it.
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
    # A duplicate, so that closing it leaves PMI_FD open: for the next time, and for MPI.
    return socket.socket(fileno=os.dup(fd))


def _ask(connection: socket.socket, end: float, command: str) -> dict[str, str]:
    """The fields of the answer. Raises TimeoutError at monotonic second `end`, OSError."""
    connection.sendall(f"cmd={command}\n".encode())
    line = b""
    while not line.endswith(b"\n"):
        # poll(), and not the socket's own timeout: that would make the descriptor non-blocking for MPI, too.
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimeoutError
        # An answer is one line, and nothing follows before the next question.
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
