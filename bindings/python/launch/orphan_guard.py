# SPDX-License-Identifier: Apache-2.0
"""Ends a job's process groups when their launcher has ended, even by SIGKILL. The launcher starts one guard per job.

The guard reads "+PGID" and "-PGID" lines from standard input. Only the launcher holds the other end, and the kernel
closes it however the launcher ends. At the end of input the guard kills every group without a "-" line. A rank writes
its "+" line itself, between fork and exec, and holds the other end until then. So the launcher cannot die at a moment
when a rank exists that the guard does not know.

PR_SET_PDEATHSIG, the usual way, does not suffice: it reaches only the rank itself, not the processes that the rank
started (`bash train.sh` would die and its python live on); it depends on the launching thread, not the process; and it
is lost when a set-user-ID program is executed.

The guard imports nothing of hipress and little of Python, so it starts in about 10 ms and stays small. No rank waits
for it.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Read the launcher's lines until the launcher has ended."""
    # Signals for the job must not end its guard: only the launcher ends it, by closing the socket.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    # readline() returns each line at once; iteration would read ahead.
    while line := sys.stdin.buffer.readline():
        group = int(line[1:])
        if line.startswith(b"+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
