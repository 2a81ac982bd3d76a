# SPDX-License-Identifier: Apache-2.0
"""Starts processes of an elastic job on this host, or on others through ssh."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence

from hipress.launch.handover import HANDED_ON, HANDED_ON_PREFIXES

TOKEN = "HIPRESS_JOB_TOKEN"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: Seconds after which a process that stands still (SIGSTOP) is lost: its host answers for it, so the other ranks do not
#: notice.
STILL = 3.0
#: The program of a process on another host: it gets the token from stdin, not from the command line, which others can
#: read. When stdin ends, because ssh or the launcher has, it ends all that it has started. It kills a process that
#: stands still.
_REMOTE = """\
cd {folder} && IFS= read -r {token} && export {token} || exit 126
exec 3<&0
setsid env {variables} {command} </dev/null 3<&- &
process=$!
(cat <&3 >/dev/null; kill -TERM -$process; sleep {grace}; kill -KILL -$process) 2>/dev/null &
guard=$!
(still=0
while sleep 1; do
  if grep -q "^State:.T (stopped)" /proc/$process/status; then still=$((still + 1)); else still=0; fi
  if [ $still -gt {still} ]; then kill -KILL -$process; fi
done) </dev/null >/dev/null 2>&1 3<&- &
watch=$!
exec 3<&-
wait $process
code=$?
kill -KILL -$process 2>/dev/null
kill $guard $watch 2>/dev/null
exit $code
"""


def is_here(host: str) -> bool:
    """Whether the name is one of this host."""
    return host in (*_LOOPBACK, socket.gethostname(), socket.getfqdn())


def remote_command(
    host: str, command: Sequence[str], variables: Mapping[str, str], given: Mapping[str, str], grace: float
) -> tuple[list[str], bytes]:
    """The command that starts a process on another host, and what to write to its stdin, which stays open.

    `variables`: all that a process here would get. Of these another host gets the launcher's, the variables that
    hipress run -H hands on, and `given`, which --env names.
    """
    handed_on = {
        name: value
        for name, value in {**variables, **given}.items()
        if name in given or name in HANDED_ON or name.startswith(HANDED_ON_PREFIXES) or name == "OMP_NUM_THREADS"
    }
    token = handed_on.pop(TOKEN)
    script = _REMOTE.format(
        folder=shlex.quote(os.getcwd()),
        token=TOKEN,
        variables=" ".join(shlex.quote(f"{name}={value}") for name, value in sorted(handed_on.items())),
        command=shlex.join(command),
        grace=f"{grace:g}",
        still=int(STILL),
    )
    return ["ssh", "-o", "BatchMode=yes", host, f"sh -c {shlex.quote(script)}"], f"{token}\n".encode()
