# SPDX-License-Identifier: Apache-2.0
"""The processes of MXNet's dist_sync kvstore. The ranks are the workers; each rank starts a server, and rank 0 the
scheduler.

It needs an environment with MXNet.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from benchmarks.harness.meeting import Meeting

#: Deadline for a server to end after its workers have left (seconds).
_LEAVE = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class KvstoreProcesses:
    """Inside a `with` statement `mx.kv.create("dist_sync")` works. All kvstores must be gone at its end.

    `interface`: the network device between nodes; empty: all ranks are on this machine.
    """

    def __init__(self, meeting: Meeting, interface: str) -> None:
        self._rank = meeting.rank
        address = os.environ["NODE_ADDRESS"] if interface else "127.0.0.1"
        # There are as many servers as workers, as in the published experiments. Each server has its share of the
        # parameters.
        self._variables = {
            "DMLC_PS_ROOT_URI": os.environ["MASTER_ADDR"] if interface else "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(meeting.gather(_free_port(address))[0]),
            "DMLC_NUM_WORKER": str(meeting.world),
            "DMLC_NUM_SERVER": str(meeting.world),
            "DMLC_NODE_HOST": address,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> KvstoreProcesses:
        for role in ["scheduler", "server"] if self._rank == 0 else ["server"]:
            # With this role MXNet runs as a server as soon as it is imported, until it is told to end.
            command = [sys.executable, "-c", "import mxnet"]
            environment = {**os.environ, **self._variables, "DMLC_ROLE": role}
            self._processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))
        os.environ.update(self._variables, DMLC_ROLE="worker")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE if kind is None else 0)
            process.kill()
            process.wait()
        if kind is not None:
            # os._exit, because the destructor of a kvstore waits for lost servers forever.
            traceback.print_exception(error)
            os._exit(1)

    def cpu_seconds(self) -> float:
        """Processor seconds of this process and the processes that it started."""
        return time.process_time() + sum(_cpu_seconds(process.pid) for process in self._processes)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Ends the process with a stack trace if the body takes longer: a kvstore waits for lost processes forever."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process that runs, or that has ended but was not waited for."""
    _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        port: int = server.getsockname()[1]
        return port
