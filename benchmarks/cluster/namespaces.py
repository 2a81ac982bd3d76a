# SPDX-License-Identifier: Apache-2.0
"""Starts and finds the processes that hold namespaces.

A holder is the first process of a PID namespace. When it ends, the kernel ends every process of the namespace, and
removes its other namespaces with their devices, because nothing else refers to them. So a cluster leaves nothing
behind. A name in /run/netns would outlive the processes, so the namespaces have none.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

#: Deadline for the start of a holder and for a command in a namespace (seconds); they take milliseconds.
DEADLINE = 30.0
READY = b"ready\n"


@dataclass(frozen=True)
class Holder:
    """A started holder. `process`: the started process; `pid`: the namespace's first process, in this PID namespace."""

    process: subprocess.Popen[bytes]
    pid: int

    def end(self) -> None:
        """Kills everything in the namespace and waits for it."""
        if self.process.poll() is None:  # otherwise another process may have the number now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait(DEADLINE)


def start_holder(prefix: Sequence[str], unshared: Sequence[str], script: str, name: str, *arguments: str) -> Holder:
    """Starts `sh -c script name arguments` in new namespaces, through the command `prefix`, and waits until it has
    written "ready". A script that reads its standard input ends with this process. Raises ClusterError."""
    unshare = ["unshare", *unshared, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    process = subprocess.Popen(
        [*prefix, *unshare, "sh", "-c", script, name, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Only the owner of the cluster must receive Ctrl-C: it ends the cluster in order.
        start_new_session=True,
    )
    try:
        _await_ready(process, name)
        return Holder(process, find_holder(name))
    except BaseException:
        with contextlib.suppress(ClusterError):
            os.kill(find_holder(name), signal.SIGKILL)
        process.kill()
        process.wait(DEADLINE)
        raise


def find_holder(name: str) -> int:
    """The process of the holder called `name`. Raises ClusterError if there is none."""
    for holder, pid in holders():
        if holder == name:
            return pid
    raise ClusterError(f"{name} does not run")


def holders() -> list[tuple[str, int]]:
    """Names and processes of all holders of all clusters on this machine."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # the process has just ended
        named = words[:2] == [b"sh", b"-c"] and len(words) > 3 and words[3].startswith(b"hipress-cluster-")
        # Skip unshare, and a child of the shell before its exec.
        if named and _is_first(directory):
            found.append((words[3].decode(), int(directory.name)))
    return sorted(found)


def run(command: Sequence[str]) -> None:
    """Runs a command. Raises ClusterError with its output if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {(done.stderr + done.stdout).strip()}")


def read_line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The first line of a process. If the process ends or `deadline` (seconds) passes first, a part of the line."""
    assert process.stdout is not None
    said = b""
    end = time.monotonic() + deadline
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(process.stdout.fileno(), 1) if ready else b""
        if not piece:
            break
        said += piece
    return said


def _is_first(directory: Path) -> bool:
    """Whether a process is the first one of its PID namespace."""
    with contextlib.suppress(OSError):
        for line in (directory / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1"
    return False


def _await_ready(process: subprocess.Popen[bytes], name: str) -> None:
    assert process.stdout is not None
    said = b""
    end = time.monotonic() + DEADLINE
    while READY not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(process.stdout.fileno(), 4096) if ready else b""
        said += piece
        if not ready:
            raise ClusterError(
                f"{name} is not ready after {DEADLINE:g} s; it said: {said.decode().strip() or 'nothing'}"
            )
        if not piece:
            raise ClusterError(f"{name} cannot be made: {said.decode().strip() or 'no reason given'}")
