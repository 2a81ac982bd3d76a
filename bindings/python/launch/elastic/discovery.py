# SPDX-License-Identifier: Apache-2.0
"""Which hosts an elastic job may use now: a program of the user prints them, as with Horovod."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable

from hipress.errors import InvalidArgument

#: Seconds between two runs of the program, and for a run.
_INTERVAL, _PATIENCE = 1.0, 10.0
_MOST_OUTPUT = 1 << 20


def hosts_of(text: str, slots: int) -> dict[str, int]:
    """The number of ranks of each host, from lines `host` or `host:ranks`. Raises InvalidArgument."""
    hosts: dict[str, int] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        host, colon, count = line.rpartition(":")
        if not colon:
            host, count = line, str(slots)
        if not host or any(character.isspace() for character in host) or host.startswith("-") or not _is_count(count):
            raise InvalidArgument(f"it printed {line!r}; expected a host, or a host and its ranks: host1:4")
        if host in hosts:
            raise InvalidArgument(f"it printed the host {host} twice")
        hosts[host] = int(count)
    if not hosts:
        raise InvalidArgument("it printed no host")
    return hosts


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


class Discovery:
    """Runs the program each second, without blocking. `slots`: the ranks of a host without a number."""

    def __init__(self, program: str, slots: int) -> None:
        self._program = program
        self._slots = slots
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self._run_at = 0.0
        self._kill_at = 0.0
        self._complaint = ""
        self.hosts: dict[str, int] = {}
        """The hosts of the last run that ended well."""
        self.sentences: list[str] = []
        """Sentences for the launcher to print."""

    def first(self) -> dict[str, int]:
        """Waits for the first run, and returns the hosts. Raises InvalidArgument if it fails or hangs."""
        end = time.monotonic() + _PATIENCE
        self.tick(time.monotonic())
        while self._process is not None:
            descriptors = list(self.ready())
            select.select(descriptors, [], [], max(0.0, end - time.monotonic()))
            for read in self.ready().values() if time.monotonic() < end else ():
                read(time.monotonic())
            self.tick(time.monotonic())
        if self._complaint:
            raise InvalidArgument(self._complaint)
        return self.hosts

    def ready(self) -> dict[int, Callable[[float], None]]:
        """The file descriptor to wait for, and what to call, with the time, when it can be read."""
        if self._process is None or self._process.stdout is None:
            return {}
        return {self._process.stdout.fileno(): self._read}

    def next_time(self) -> float:
        """When to call tick()."""
        return self._run_at if self._process is None else self._kill_at

    def tick(self, now: float) -> None:
        """Begins a run, or ends one that hangs."""
        if self._process is not None:
            if now >= self._kill_at:
                self._end(now, f"has not ended within {_PATIENCE:g} s")
        elif now >= self._run_at:
            self._output, self._kill_at = b"", now + _PATIENCE
            try:
                self._process = subprocess.Popen(
                    [self._program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    start_new_session=True,
                )
            except OSError as error:
                self._end(now, f"cannot run: {error.strerror}")

    def close(self) -> None:
        """Ends a run."""
        self._kill()

    def _read(self, now: float) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        received = os.read(self._process.stdout.fileno(), 1 << 16)
        self._output += received
        if len(self._output) > _MOST_OUTPUT:
            return self._end(now, f"printed more than {_MOST_OUTPUT} bytes")
        if received:
            return
        try:
            code = self._process.wait(timeout=max(0.0, self._kill_at - now))
            text = self._output.decode()
            self._end(now, f"has ended with {code}" if code else "", None if code else text)
        except subprocess.TimeoutExpired:
            self._end(now, f"has not ended within {_PATIENCE:g} s")
        except UnicodeDecodeError:
            self._end(now, "printed bytes that are no text")

    def _end(self, now: float, problem: str, text: str | None = None) -> None:
        self._kill()
        self._run_at = now + _INTERVAL
        if text is not None:
            try:
                self.hosts = hosts_of(text, self._slots)
            except InvalidArgument as error:
                problem = str(error)
        complaint = f"--host-discovery-script {self._program}: {problem}" if problem else ""
        if complaint and complaint != self._complaint:
            self.sentences.append(f"{complaint}; the job goes on with the hosts that it has")
        self._complaint = complaint

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
