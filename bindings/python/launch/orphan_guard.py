# SPDX-License-Identifier: Apache-2.0
"""Ends a job's process groups when their launcher is gone, even by SIGKILL. Run by the launcher, one per job.

Reads "+PGID" and "-PGID" lines from standard input, whose other end only the launcher holds; the kernel closes it
however the launcher ends. At the end of input every group not taken back is killed. A rank writes its "+" line itself,
between fork and exec, and holds that end until then: so there is no moment at which the launcher can die and leave a
rank that the guard does not know.

Why a process of its own: PR_SET_PDEATHSIG, the usual way, reaches only the rank itself and not what the rank started
(`bash train.sh` would die and its python live on), is tied to the launching thread rather than the process, and is
lost when a set-user-ID program is executed.

Imports nothing of hipress and little of Python, to start in about 10 ms and stay small. No rank waits for it.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Follow the launcher's lines until it is gone."""
    # Signals meant for the job must not remove its guard; the launcher alone decides, by closing the pipe.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    # readline(), not iteration, which reads ahead and would hold lines back.
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
