# SPDX-License-Identifier: Apache-2.0
"""Lines that deliver late: delay_line.c, compiled when a cluster needs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .errors import ClusterError, ClusterUnavailable
from .namespaces import DEADLINE, READY, read_line, run

_SOURCE = Path(__file__).with_name("delay_line.c")
_DEVICE = Path("/dev/net/tun")
#: The longest valid round trip. A longer one than around the earth means that the user gave the wrong unit.
MAX_ROUND_TRIP_MS = 2000.0


def check_round_trip(milliseconds: float) -> None:
    """Raises ClusterError if the number is no valid round trip."""
    if not 0 <= milliseconds <= MAX_ROUND_TRIP_MS:
        raise ClusterError(
            f"a round trip of {milliseconds:g} ms cannot be had; give 0 to {MAX_ROUND_TRIP_MS:g} milliseconds"
        )


class DelayLines:
    """Makes the lines of one cluster. They end with its hub."""

    def __init__(self, round_trip_ms: float) -> None:
        """Compiles the program. A round trip passes four lines, two in each direction. Raises ClusterUnavailable."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise ClusterUnavailable("links with a delay need a C compiler called cc; install gcc or clang")
        if not _DEVICE.exists():
            raise ClusterUnavailable(f"links with a delay need {_DEVICE}, which this system does not have")
        self._microseconds = round(round_trip_ms * 1000 / 4)
        self._folder = tempfile.TemporaryDirectory(prefix="hipress-cluster-")
        self._program = str(Path(self._folder.name, "delay_line"))
        self._processes: list[subprocess.Popen[bytes]] = []
        run([compiler, "-O2", "-o", self._program, str(_SOURCE)])

    def start(self, hub: int, port: str, node: int, interface: str) -> None:
        """Makes `port` in the network of the process `hub` and `interface` in the network of `node`, and joins both.

        Raises ClusterError if this fails or takes too long."""
        # In the hub's PID namespace, so that the line ends with the hub's first process.
        inside = ["nsenter", "--target", str(hub), "--pid", "--"]
        ends = [f"/proc/{hub}/ns/net", port, f"/proc/{node}/ns/net", interface]
        process = subprocess.Popen(
            [*inside, self._program, str(self._microseconds), *ends],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes.append(process)
        said = read_line(process, DEADLINE)
        if said != READY:
            raise ClusterError(f"the line to {port} is not ready: {said.decode().strip() or 'it said nothing'}")

    def end(self) -> None:
        """Ends the processes of the lines and removes their files. The hub has ended, or ends now."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            process.stdout.close()
            process.wait(DEADLINE)
        self._folder.cleanup()
